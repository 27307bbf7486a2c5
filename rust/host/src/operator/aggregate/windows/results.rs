//! The rows of the result.

use std::ops::Range;

use crate::codec::first_bytes::first_bytes;
use crate::operator::aggregate::groups::Groups;

/// Rows of the result. Each row is for one window of a key, and is computed from the union of some
/// groups of that key.
#[derive(Default)]
pub struct ResultRows {
    /// The rows.
    pub rows: Vec<ResultRow>,
    /// The groups; those of a row are adjacent, in the order of time.
    pub parts: Vec<usize>,
}

/// A row of the result.
#[derive(Clone)]
pub struct ResultRow {
    /// The window's start.
    pub start: i64,
    /// The window's end.
    pub end: i64,
    /// Where its groups are.
    pub parts: Range<usize>,
}

impl ResultRows {
    /// Adds the row of a window of one group.
    pub fn push(&mut self, start: i64, end: i64, group: usize) {
        self.parts.push(group);
        self.rows.push(ResultRow {
            start,
            end,
            parts: self.parts.len() - 1..self.parts.len(),
        });
    }

    /// The groups of a row.
    pub fn groups(&self, row: &ResultRow) -> &[usize] {
        &self.parts[row.parts.clone()]
    }

    /// Sorts the rows by (start, key), the order in which they are emitted.
    pub fn sort(&mut self, groups: &Groups) {
        let Self { rows, parts } = self;
        let key = |row: &ResultRow| groups.key(parts[row.parts.start]);
        // Most rows are told apart by numbers, without a read of their keys.
        let mut order: Vec<(i64, u128, usize)> = rows
            .iter()
            .enumerate()
            .map(|(n, row)| (row.start, first_bytes(key(row)), n))
            .collect();
        order.sort_unstable_by(|(start, first, a), (other_start, other_first, b)| {
            (start, first)
                .cmp(&(other_start, other_first))
                .then_with(|| key(&rows[*a]).cmp(key(&rows[*b])))
        });
        let sorted = order.into_iter().map(|(.., n)| rows[n].clone());
        *rows = sorted.collect();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rows_are_sorted_by_start_and_then_by_key(
            rows in prop::collection::hash_set(
                (-2..2_i64, prop::collection::vec(0..2_u8, 0..20)), 0..200),
        ) {
            let (mut groups, mut results) = (Groups::default(), ResultRows::default());
            for (start, key) in &rows {
                results.push(*start, *start + 1, groups.enter(key, *start) as usize);
            }
            results.sort(&groups);
            let found: Vec<(i64, Vec<u8>)> = results
                .rows
                .iter()
                .map(|row| (row.start, groups.key(results.groups(row)[0]).to_vec()))
                .collect();
            let mut expected: Vec<_> = rows.into_iter().collect();
            expected.sort();
            prop_assert_eq!(found, expected);
        }
    }
}
