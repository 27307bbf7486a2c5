//! Rows, and an operator over partitions in memory that runs epochs of them.

mod allocations;
mod batches;
mod job;
mod row_hashes;
mod rows;

pub use allocations::most_held;
pub use batches::{Out, batch_of, float, list, numbers, schema};
pub use job::{Done, Job};
pub use row_hashes::RowHashes;
pub use rows::{Row, cut, right, row, rows, sorted};
