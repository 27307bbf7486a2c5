//! The rows of the result.

use std::ops::Range;

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
        rows.sort_unstable_by_key(|row| (row.start, groups.key(parts[row.parts.start])));
    }
}
