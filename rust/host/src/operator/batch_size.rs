//! Limits how many rows a store call or an output batch has.
//!
//! The limits do not depend on memory, so every attempt at an epoch passes the same batches to the
//! user's code.

use std::ops::Range;

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;

/// The maximum number of rows in a batch.
pub const BATCH_ROWS: usize = 10_000;

/// The approximate maximum size of a batch in bytes; a single larger row is a batch of its own.
///
/// It is 10,000 rows of 1.6 KB: far below a frame's limit and below 2 GiB, the limit of the offsets
/// of an Arrow string column.
pub const BATCH_BYTES: usize = 16 << 20;

/// The size of a batch to which rows are added in order.
#[derive(Default)]
pub struct BatchSize {
    rows: usize,
    bytes: usize,
}

impl BatchSize {
    /// Adds a row of this many bytes if it fits; the first row always fits.
    #[inline]
    pub fn try_add(&mut self, bytes: usize) -> bool {
        if self.rows > 0
            && (self.rows == BATCH_ROWS || self.bytes.saturating_add(bytes) > BATCH_BYTES)
        {
            return false;
        }
        self.rows += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        true
    }
}

/// Returns about how many bytes the value of a column in a row has.
pub fn value_bytes(column: &ArrayRef, row: usize) -> usize {
    match column.data_type() {
        DataType::Boolean => 1,
        other => other.primitive_width().unwrap_or_else(|| {
            let value = column.slice(row, 1).to_data();
            value.get_slice_memory_size().unwrap_or(0)
        }),
    }
}

/// Cuts this many rows into batches by the size of each row.
pub fn ranges(rows: usize, bytes: impl Fn(usize) -> usize) -> impl Iterator<Item = Range<usize>> {
    let mut end = 0;
    std::iter::from_fn(move || {
        let (start, mut size) = (end, BatchSize::default());
        while end < rows && size.try_add(bytes(end)) {
            end += 1;
        }
        (end > start).then_some(start..end)
    })
}

/// Cuts rows into batches by the size of each row.
pub fn batches<T>(rows: &[T], bytes: impl Fn(&T) -> usize) -> impl Iterator<Item = &[T]> {
    ranges(rows.len(), move |row| bytes(&rows[row])).map(|range| &rows[range])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(sizes: &[usize]) -> Vec<usize> {
        batches(sizes, |size| *size).map(<[usize]>::len).collect()
    }

    #[test]
    fn rows_and_bytes_limit_a_batch_and_a_larger_row_is_a_batch_alone() {
        assert_eq!(cut(&[]), [0; 0]);
        assert_eq!(cut(&vec![1; BATCH_ROWS + 1]), [BATCH_ROWS, 1]);
        assert_eq!(cut(&[BATCH_BYTES / 2, BATCH_BYTES / 2, 1]), [2, 1]);
        assert_eq!(cut(&[1, BATCH_BYTES + 1, usize::MAX, 1, 1]), [1, 1, 1, 2]);
    }
}
