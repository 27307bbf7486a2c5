//! Epochs on their way into a partition's database: staged ones in memory, decided ones from the
//! log.

mod decided_epoch;
mod dropped_changes;
mod prepared_epoch;
mod staged_epoch;

pub use decided_epoch::{DecidedEpoch, apply_object, not_evaluated};
pub use dropped_changes::DroppedChanges;
pub use prepared_epoch::{PreparedEpoch, PreparedEpochs};
pub use staged_epoch::{StagedEpoch, StagedEpochs, StagedSource};
