//! Which object of an epoch's log this is.

use std::fmt;

use super::{OperatorName, PartitionId, RunNumber};

/// One staged object (head) of an epoch, as its name tells.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// Whose changes.
    pub operator: OperatorName,
    /// Of which partition.
    pub partition: PartitionId,
    /// Staged by which run.
    pub run: RunNumber,
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "operator {}, partition {}, run {}",
            self.operator, self.partition, self.run
        )
    }
}
