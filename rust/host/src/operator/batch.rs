//! How much goes through a store, or out, at once. Fixed, so that every attempt at an epoch does
//! the same.

use std::ops::Range;

/// Rows.
pub const BATCH_ROWS: usize = 10_000;

/// About so many bytes, unless one row alone is more: ten thousand rows of 1.6 KB. Far below what a
/// frame holds, and what the offsets of an Arrow column of strings can say (2 GiB).
pub const BATCH_BYTES: usize = 16 << 20;

/// A batch that is being filled, in order.
#[derive(Default)]
pub struct Filling {
    rows: usize,
    bytes: usize,
}

impl Filling {
    /// Takes a row of so many bytes if there is room for it; the first one always.
    #[inline]
    pub fn takes(&mut self, bytes: usize) -> bool {
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

/// Cuts so many rows into batches, by how many bytes each is.
pub fn ranges(rows: usize, bytes: impl Fn(usize) -> usize) -> impl Iterator<Item = Range<usize>> {
    let mut end = 0;
    std::iter::from_fn(move || {
        let (start, mut filling) = (end, Filling::default());
        while end < rows && filling.takes(bytes(end)) {
            end += 1;
        }
        (end > start).then_some(start..end)
    })
}

/// Cuts rows into batches, by how many bytes each is.
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
    fn rows_and_bytes_end_a_batch_and_a_row_that_is_larger_goes_alone() {
        assert_eq!(cut(&[]), [0; 0]);
        assert_eq!(cut(&vec![1; BATCH_ROWS + 1]), [BATCH_ROWS, 1]);
        assert_eq!(cut(&[BATCH_BYTES / 2, BATCH_BYTES / 2, 1]), [2, 1]);
        assert_eq!(cut(&[1, BATCH_BYTES + 1, usize::MAX, 1, 1]), [1, 1, 1, 2]);
    }
}
