//! Identifies an object of an epoch's log.

use std::fmt;

use super::number::{PartitionId, RunNumber};
use super::operator::OperatorName;

/// One staged object (head) of an epoch; its name holds the same parts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// The operator.
    pub operator: OperatorName,
    /// The partition.
    pub partition: PartitionId,
    /// The run that staged it.
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
