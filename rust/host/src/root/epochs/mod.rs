//! What a root does with an epoch and several of its folders: staging, and reading its progress.

mod progress;
mod stage;

pub use progress::{EpochProgress, EpochStatus, OperatorProgress};
pub use stage::StageOutcome;
