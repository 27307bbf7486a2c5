//! One batch of input, with everything encoded that ordering, storing and comparing its rows needs.

use arrow_array::TimestampMicrosecondArray;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, TimestampMicrosecondType};
use arrow_array::{Array, BooleanArray, RecordBatch};
use holdfast_core::{Error, ErrorKind, Result};
use xxhash_rust::xxh3::xxh3_128;

use super::layout::{DELETED, Layout, PID, SIDE, TIME};
use crate::codec::float;
use crate::codec::key::Keys;
use crate::codec::row::EncodedRows;
use crate::protocol::Digest;

/// A batch of input rows.
pub struct Input {
    /// The batch as it came.
    pub batch: RecordBatch,
    /// Its keys.
    pub keys: Keys,
    /// The rows' content, `pid` left out.
    pub content: EncodedRows,
    /// The content's hashes.
    pub hashes: Vec<u128>,
    order_left: EncodedRows,
    order_right: EncodedRows,
    sides: BooleanArray,
    deleted: BooleanArray,
    times: TimestampMicrosecondArray,
}

impl Input {
    /// Encodes a batch. `partition`: the only one that its rows may be of, if that matters.
    ///
    /// # Errors
    /// `InvalidState` for a row of another partition, `InvalidValue` for one of no side,
    /// `Serialization` for rows that cannot be encoded.
    pub fn new(layout: &Layout, batch: RecordBatch, partition: Option<i32>) -> Result<Self> {
        if let Some(partition) = partition {
            check_partition(&batch, partition)?;
        }
        let sides = batch.column(SIDE).as_boolean().clone();
        if sides.null_count() > 0 {
            return Err(Error::new(
                ErrorKind::InvalidValue,
                "column side has nulls, so rows are of no side",
            ));
        }
        let columns = batch.columns();
        let picked = |places: &[usize]| {
            places
                .iter()
                .map(|place| float::for_ordering(&columns[*place]))
                .collect::<Vec<_>>()
        };
        let content = layout.content_codec.encode(&columns[SIDE..])?;
        Ok(Self {
            keys: layout.key_codec.encode(&columns[layout.keys.clone()])?,
            hashes: (0..batch.num_rows())
                .map(|row| xxh3_128(content.get(row)))
                .collect(),
            content,
            order_left: layout
                .order_left_codec
                .encode(&picked(&layout.order_left))?,
            order_right: layout
                .order_right_codec
                .encode(&picked(&layout.order_right))?,
            sides,
            deleted: batch.column(DELETED).as_boolean().clone(),
            times: batch
                .column(TIME)
                .as_primitive::<TimestampMicrosecondType>()
                .clone(),
            batch,
        })
    }

    /// The same rows with their sides, keys and times alone.
    ///
    /// # Errors
    /// `Serialization`, which does not come.
    pub fn without_columns(self) -> Result<Self> {
        let batch = self
            .batch
            .project(&[])
            .map_err(|error| Error::new(ErrorKind::Serialization, error.to_string()))?;
        let none = EncodedRows::default;
        Ok(Self {
            batch,
            content: none(),
            hashes: Vec::new(),
            order_left: none(),
            order_right: none(),
            ..self
        })
    }

    /// How many rows there are.
    pub fn num_rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// About how much memory it takes, in bytes.
    pub fn bytes(&self) -> usize {
        let columns: usize = self
            .batch
            .columns()
            .iter()
            .map(|column| column.to_data().get_slice_memory_size().unwrap_or(0))
            .sum();
        let encoded = [
            &self.content,
            self.keys.rows(),
            &self.order_left,
            &self.order_right,
        ];
        columns
            + encoded.iter().map(|rows| rows.bytes()).sum::<usize>()
            + self.hashes.len() * size_of::<u128>()
    }

    /// About how many bytes a row's columns are.
    #[inline]
    pub fn row_bytes(&self, row: usize) -> usize {
        self.content.get(row).len()
    }

    /// Whether a row is of the left side, the stream.
    #[inline]
    pub fn is_left(&self, row: usize) -> bool {
        self.sides.value(row)
    }

    /// Whether a right row ends the value.
    #[inline]
    pub fn is_deleted(&self, row: usize) -> bool {
        self.deleted.is_valid(row) && self.deleted.value(row)
    }

    /// A row's time.
    #[inline]
    pub fn time(&self, row: usize) -> Option<i64> {
        self.times.is_valid(row).then(|| self.times.value(row))
    }

    /// What orders rows of one side and time before their content does.
    #[inline]
    pub fn order(&self, row: usize) -> &[u8] {
        if self.is_left(row) {
            self.order_left.get(row)
        } else {
            self.order_right.get(row)
        }
    }
}

/// Rows of another partition would be joined with the wrong state, or with none.
fn check_partition(batch: &RecordBatch, partition: i32) -> Result<()> {
    let pids = batch.column(PID).as_primitive::<Int32Type>();
    let stranger = if pids.null_count() > 0 {
        None
    } else {
        pids.values()
            .iter()
            .find(|pid| **pid != partition)
            .copied()
            .map(Some)
    };
    if pids.null_count() == 0 && stranger.is_none() {
        return Ok(());
    }
    let of = stranger.flatten().map_or_else(
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

/// A digest of rows that does not depend on their order: the sum of their hashes, and their number.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fingerprint {
    sum: u128,
    rows: u64,
}

impl Fingerprint {
    /// Adds a batch.
    pub fn add(&mut self, input: &Input) {
        self.sum = input
            .hashes
            .iter()
            .fold(self.sum, |sum, hash| sum.wrapping_add(*hash));
        self.rows += input.num_rows() as u64;
    }

    /// The digest.
    pub fn digest(&self) -> Digest {
        let mut bytes = [0; 24];
        bytes[..16].copy_from_slice(&self.sum.to_be_bytes());
        bytes[16..].copy_from_slice(&self.rows.to_be_bytes());
        Digest::of(&bytes)
    }
}
