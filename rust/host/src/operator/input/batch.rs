//! One batch of input, with the encoded rows that sorting, storing and comparing need.

use arrow_array::TimestampMicrosecondArray;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, TimestampMicrosecondType};
use arrow_array::{Array, BooleanArray, RecordBatch};
use holdfast_core::{Error, ErrorKind, Result};
use xxhash_rust::xxh3::xxh3_128;

use super::columns::{DELETED, PID, SIDE, TIME};
use super::layout::InputLayout;
use crate::codec::key::Keys;
use crate::codec::row::EncodedRows;
use crate::operator::batch_size::value_bytes;

/// A batch of input rows.
pub struct InputBatch {
    /// The batch as it arrived.
    pub batch: RecordBatch,
    /// The rows' keys.
    pub keys: Keys,
    /// The content's hashes; none if the layout is without content.
    pub hashes: Vec<u128>,
    /// The rows' content without `pid`.
    content: Option<EncodedRows>,
    order_left: EncodedRows,
    order_right: EncodedRows,
    sides: BooleanArray,
    deleted: BooleanArray,
    times: TimestampMicrosecondArray,
}

impl InputBatch {
    /// Encodes a batch. `partition` is the partition that all rows must belong to; none allows any
    /// partition.
    ///
    /// # Errors
    /// `InvalidState` for a row of another partition, `InvalidValue` for a row without a side,
    /// `Serialization` for rows that cannot be encoded.
    pub fn new(layout: &InputLayout, batch: RecordBatch, partition: Option<i32>) -> Result<Self> {
        if let Some(partition) = partition {
            check_partition(&batch, partition)?;
        }
        let sides = batch.column(SIDE).as_boolean().clone();
        if sides.null_count() > 0 {
            return Err(Error::new(
                ErrorKind::InvalidValue,
                "column side has nulls, so rows have no side",
            ));
        }
        let columns = batch.columns();
        let content = layout.content.as_ref().map(|of| of.encode(&batch));
        let content = content.transpose()?;
        Ok(Self {
            keys: layout.key_codec.encode(&columns[layout.keys.clone()])?,
            hashes: content.as_ref().map_or_else(Vec::new, |content| {
                let rows = 0..batch.num_rows();
                rows.map(|row| xxh3_128(content.get(row))).collect()
            }),
            content,
            order_left: layout.order.left.encode(&batch)?,
            order_right: layout.order.right.encode(&batch)?,
            sides,
            deleted: batch.column(DELETED).as_boolean().clone(),
            times: batch
                .column(TIME)
                .as_primitive::<TimestampMicrosecondType>()
                .clone(),
            batch,
        })
    }

    /// The number of rows.
    pub fn num_rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// Returns about how much memory the batch takes, in bytes.
    pub fn bytes(&self) -> usize {
        let encoded = [self.keys.rows(), &self.order_left, &self.order_right];
        let columns: usize = self
            .batch
            .columns()
            .iter()
            .map(|column| column.to_data().get_slice_memory_size().unwrap_or(0))
            .sum();
        columns
            + encoded.iter().map(|rows| rows.bytes()).sum::<usize>()
            + self.content.as_ref().map_or(0, EncodedRows::bytes)
            + self.hashes.len() * size_of::<u128>()
    }

    /// Returns about how many bytes a row's columns have.
    #[inline]
    pub fn row_bytes(&self, row: usize) -> usize {
        match &self.content {
            Some(content) => content.get(row).len(),
            None => {
                let columns = self.batch.columns().iter();
                columns.map(|column| value_bytes(column, row)).sum()
            }
        }
    }

    /// A row's content; empty if the layout is without content.
    pub(super) fn content(&self, row: usize) -> &[u8] {
        let content = self.content.as_ref();
        content.map_or(&[], |content| content.get(row))
    }

    /// Whether a row is a left row.
    #[inline]
    pub fn is_left(&self, row: usize) -> bool {
        self.sides.value(row)
    }

    /// Whether a right row deletes its key's value from the row's time on.
    #[inline]
    pub fn is_deleted(&self, row: usize) -> bool {
        self.deleted.is_valid(row) && self.deleted.value(row)
    }

    /// A row's time.
    #[inline]
    pub fn time(&self, row: usize) -> Option<i64> {
        self.times.is_valid(row).then(|| self.times.value(row))
    }

    /// The greatest time of the rows.
    pub fn last_time(&self) -> Option<i64> {
        self.times.iter().flatten().max()
    }

    /// The encoded `order_by` columns of a row. Rows of the same side and time are compared by
    /// these bytes first, then by their content.
    #[inline]
    pub fn order(&self, row: usize) -> &[u8] {
        if self.is_left(row) {
            self.order_left.get(row)
        } else {
            self.order_right.get(row)
        }
    }
}

/// Checks that all rows belong to a partition. Rows of other partitions would be processed with the
/// wrong state.
fn check_partition(batch: &RecordBatch, partition: i32) -> Result<()> {
    let pids = batch.column(PID).as_primitive::<Int32Type>();
    let other = if pids.null_count() > 0 {
        None
    } else {
        pids.values()
            .iter()
            .find(|pid| **pid != partition)
            .copied()
            .map(Some)
    };
    if pids.null_count() == 0 && other.is_none() {
        return Ok(());
    }
    let of = other.flatten().map_or_else(
        || "no partition".to_owned(),
        |pid| format!("partition {pid}"),
    );
    Err(Error::new(
        ErrorKind::InvalidState,
        format!(
            "the task of partition {partition} got rows of {of}: a union or coalesce above the \
             operator moves its tasks. Put repartition() between them, or write the two results \
             in two queries"
        ),
    ))
}
