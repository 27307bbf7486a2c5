//! `log/`: a folder for each epoch, with the objects that were staged for it.
//!
//! [`EpochLog`] lists and removes epochs (`epochs.rs`), reads and writes objects (`heads.rs`),
//! stages in the protocol's order (`stage.rs`), and finds which run decided an epoch
//! (`decisions.rs`).

mod decisions;
mod epochs;
mod heads;
mod stage;

pub use epochs::EpochLog;
pub use heads::Head;
pub use stage::StageOutcome;
