//! `log/`: a folder for each epoch, with the objects that were staged for it and its decision.
//!
//! [`EpochLog`] lists epochs (`epochs.rs`) and removes old ones (`trims.rs`), and reads and writes
//! objects (`heads.rs`).

mod epochs;
mod heads;
mod trims;

pub use epochs::EpochLog;
pub use heads::Head;
