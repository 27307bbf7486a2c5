//! Builds batches of joined rows from encoded keys and payloads.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use holdfast_core::Result;
use xxhash_rust::xxh3::Xxh3Default;

use super::columns::{ColumnSource, OutputColumns, times_of};
use super::digest::{digest_key, digest_side};
use crate::operator::input::InputLayout;

/// One side of a joined row; its time and its payload may each be missing.
#[derive(Debug, Clone, Copy, Default)]
pub struct JoinedSide<'a> {
    /// The time of the row, or of its deletion, if that is known.
    pub time: Option<i64>,
    /// The encoded payload columns; none if they are all null.
    pub payload: Option<&'a [u8]>,
}

impl<'a> JoinedSide<'a> {
    /// The missing side of a row without a match.
    pub const MISSING: Self = Self {
        time: None,
        payload: None,
    };

    /// A row with its payload.
    pub fn row(time: Option<i64>, payload: &'a [u8]) -> Self {
        Self {
            time,
            payload: Some(payload),
        }
    }
}

/// Joined rows that become one batch. All bytes of the rows are in one buffer.
#[derive(Default)]
pub struct JoinedRows {
    rows: Vec<JoinedRow>,
    bytes: Vec<u8>,
}

struct JoinedRow {
    key: Range<usize>,
    left: SideRange,
    right: SideRange,
}

/// The time of one side of a row, and where its payload is in the buffer.
type SideRange = (Option<i64>, Option<Range<usize>>);

impl JoinedRows {
    /// Adds a row.
    pub fn push(&mut self, key: &[u8], left: JoinedSide<'_>, right: JoinedSide<'_>) {
        let key = self.copy(key);
        let left = (left.time, left.payload.map(|payload| self.copy(payload)));
        let right = (right.time, right.payload.map(|payload| self.copy(payload)));
        self.rows.push(JoinedRow { key, left, right });
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Removes the rows. The buffer's memory is not freed.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.bytes.clear();
    }

    /// Returns the rows as a batch. `layout` describes the input that the rows are from.
    ///
    /// # Errors
    /// `Serialization` if the bytes are not rows that were encoded with this layout.
    pub fn batch(&self, output: &OutputColumns, layout: &InputLayout) -> Result<RecordBatch> {
        let payload = |side: &SideRange| side.1.clone().map(|range| &self.bytes[range]);
        let keys = layout
            .key_codec
            .decode(self.rows.iter().map(|row| &self.bytes[row.key.clone()]))?;
        let left = layout
            .left_codec
            .decode(self.rows.iter().map(|row| payload(&row.left)))?;
        let right = layout
            .right_codec
            .decode(self.rows.iter().map(|row| payload(&row.right)))?;
        let column = |source: &ColumnSource| match *source {
            ColumnSource::Key { index } => Arc::clone(&keys[index]),
            ColumnSource::Left { index } => Arc::clone(&left[index]),
            ColumnSource::Right { index } => Arc::clone(&right[index]),
            ColumnSource::Time => times_of(
                layout.time_type(),
                self.rows.iter().map(|row| row.left.0).collect(),
            ),
            ColumnSource::RightTime => times_of(
                layout.time_type(),
                self.rows.iter().map(|row| row.right.0).collect(),
            ),
        };
        output.batch(output.sources.iter().map(column).collect::<Vec<ArrayRef>>())
    }

    /// Adds the rows, in order, to a digest.
    pub fn digest(&self, hasher: &mut Xxh3Default) {
        for JoinedRow { key, left, right } in &self.rows {
            digest_key(&self.bytes[key.clone()], hasher);
            for (time, payload) in [left, right] {
                let payload = payload.clone().map(|range| &self.bytes[range]);
                digest_side(*time, payload, hasher);
            }
        }
    }

    fn copy(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }
}
