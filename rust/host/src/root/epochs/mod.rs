//! Work on an epoch that uses several folders of the root: staging it, and reading its progress.

mod progress;
mod stage;

pub use progress::{EpochProgress, EpochStatus, OperatorProgress};
pub use stage::StageOutcome;
