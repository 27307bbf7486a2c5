//! Deduplication: the first row of each key within a time span is emitted.
//!
//! `deduplication.rs` settings and the work of a session · `epoch_keys.rs` the keys of an epoch
//! with their newest times, of which `newest_times.rs` are in memory.

mod deduplication;
mod epoch_keys;
mod newest_times;

pub use deduplication::{DropDuplicates, DropDuplicatesSpec};
