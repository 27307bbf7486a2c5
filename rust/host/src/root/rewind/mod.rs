//! `holdfast epoch drop` and `holdfast rewind`: commands for a query that is stopped.
//!
//! Both claim a run of their own first, which fences a driver that is still running. Objects that
//! they remove are moved to `removed/<that run>/` and keep their names.

mod drop_epoch;
mod removal;
mod restorable;
mod take_back;

pub use removal::RemovedObjects;
