//! `holdfast epoch drop` and `holdfast rewind`: commands for a query that is stopped.
//!
//! Both claim a run of their own first, which fences a driver that is still running. What they
//! remove moves to `removed/<that run>/`, under the name that it had.

mod drop_epoch;
mod removal;
mod take_back;

pub use removal::RemovedObjects;
