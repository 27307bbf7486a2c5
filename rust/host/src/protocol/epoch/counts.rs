//! An epoch's rows in one partition, by what the operator did with them.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// Rows by what the operator did with them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Rows of the input.
    pub input_rows: u64,
    /// Rows of the output.
    pub output_rows: u64,
    /// Rows of the result that have both sides.
    pub matched: u64,
    /// Rows that the operator cannot use because they have no key or no time.
    pub dropped: u64,
    /// Rows that came too late: older than the retention or the grace allows or, in a join of two
    /// tables and in a timestamped table, older than the newest row of their key.
    pub late: u64,
    /// Left rows of an as-of join whose time is before the table's history, so that they match
    /// nothing although an older version may have been valid.
    pub expired: u64,
    /// Far-future rows, which are stored in `ahead/` instead of the state.
    pub ahead: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.input_rows += other.input_rows;
        self.output_rows += other.output_rows;
        self.matched += other.matched;
        self.dropped += other.dropped;
        self.late += other.late;
        self.expired += other.expired;
        self.ahead += other.ahead;
    }
}
