//! Deduplication: the first row of each key within a time span is emitted.
//!
//! `deduplication.rs` settings and the work of a session · `newest_times.rs` the keys of an epoch
//! with their newest times.

mod deduplication;
mod newest_times;

pub use deduplication::{DropDuplicates, DropDuplicatesSpec};
