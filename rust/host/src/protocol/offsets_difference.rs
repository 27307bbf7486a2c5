//! How Spark's offsets of an epoch differ from what is recorded.

use std::fmt;

use super::digest::Digest;

/// How Spark's offsets of an epoch differ from those that a session or a decision names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetsDifference {
    /// The file was written for another batch than the task's plan.
    BatchTime {
        /// The batch timestamp in the plan, in epoch milliseconds.
        plan: i64,
        /// The batch timestamp in the file; none if the file has none.
        file: Option<i64>,
    },
    /// The file has another digest than the one that is recorded.
    Content {
        /// The recorded digest.
        recorded: Digest,
        /// The file's digest; none if it is missing.
        file: Option<Digest>,
    },
}

impl fmt::Display for OffsetsDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BatchTime {
                plan,
                file: Some(file),
            } => write!(
                f,
                "this task's plan is of the batch at {plan} ms, the file is of the batch at {file} \
                 ms"
            ),
            Self::BatchTime { plan, file: None } => write!(
                f,
                "this task's plan is of the batch at {plan} ms, the file has no batchTimestampMs"
            ),
            Self::Content {
                recorded,
                file: Some(file),
            } => write!(f, "the recorded digest is {recorded}, the file has {file}"),
            Self::Content {
                recorded,
                file: None,
            } => write!(f, "the recorded digest is {recorded}, the file is missing"),
        }
    }
}
