//! Work on an epoch that needs several folders of the root: it is staged, and its progress is read.

mod progress;
mod stage;

pub use progress::{EpochProgress, EpochStatus, OperatorProgress};
pub use stage::StageOutcome;
