//! Epochs that a partition's database does not have yet: prepared ones in memory and decided ones
//! from the log, which are committed later, and staged ones, which readers see.

mod decided_epoch;
mod dropped_changes;
mod prepared_epoch;
mod staged_epoch;

pub use decided_epoch::{DecidedEpoch, apply_object, not_evaluated};
pub use dropped_changes::DroppedChanges;
pub use prepared_epoch::{PreparedEpoch, PreparedEpochs};
pub use staged_epoch::{StagedEpoch, StagedEpochs, StagedSource};
