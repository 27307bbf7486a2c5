//! What a run over an epoch's input returns.

use serde::{Deserialize, Serialize};

use crate::protocol::Digest;

/// The digests and the counts of a run over the input.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The input's digest, which does not depend on the rows' order.
    pub input: Digest,
    /// The output's digest, which depends on the rows' order.
    pub output: Digest,
    /// The row counts.
    pub counts: Counts,
}

/// The numbers of rows, by what the operator did with them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Rows of the input.
    pub input_rows: u64,
    /// Rows of the output.
    pub output_rows: u64,
    /// Rows of the result with both sides.
    pub matched: u64,
    /// Rows that the operator cannot use because they have no key or no time.
    pub dropped: u64,
    /// Rows that came too late: older than the retention or the grace allows.
    pub late: u64,
    /// Left rows of an as-of join whose time is before the table's history, so that they match
    /// nothing although an older version may have been valid.
    pub expired: u64,
    /// Far-future rows, which were set aside.
    pub ahead: u64,
}
