//! `log/`: a folder for each epoch, with the objects that were staged for it and its decision.
//!
//! [`EpochLog`] lists and removes epochs (`epochs.rs`), and reads and writes objects (`heads.rs`).

mod epochs;
mod heads;

pub use epochs::EpochLog;
pub use heads::Head;
