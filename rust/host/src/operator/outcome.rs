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
    /// The stream time after the epoch, in microseconds. Idle partitions follow it. None for
    /// operators without a stream time, and until a row has had a time.
    pub stream_time: Option<i64>,
}

impl Outcome {
    /// The same outcome with a stream time.
    #[must_use]
    pub fn at(self, stream_time: Option<i64>) -> Self {
        Self {
            stream_time,
            ..self
        }
    }
}
