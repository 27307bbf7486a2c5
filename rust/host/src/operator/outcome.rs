//! What a run over an epoch's input returns.

use crate::protocol::{Counts, Digest};

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
