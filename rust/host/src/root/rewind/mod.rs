//! `holdfast epoch drop` and `holdfast rewind`: commands for a query that is stopped.
//!
//! Before it removes anything, each command claims a run, which fences a driver that is still
//! running. The objects that it removes are moved to `removed/<that run>/` and keep their names.

mod drop_epoch;
mod removal;
mod restorable;
mod spark_state;
mod take_back;

pub use removal::RemovedObjects;
