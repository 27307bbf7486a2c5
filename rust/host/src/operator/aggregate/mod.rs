//! Aggregation by key, and by windows of event time.
//!
//! `spec.rs` settings (`window_spec.rs` those of windows) · `aggregation.rs` the work of a session
//! · `groups.rs` the groups of an epoch · `epoch_in_parts.rs` an epoch larger than memory
//! (`moved_groups.rs` its groups, `group_batch.rs` a batch of them) · `windows/` which groups a row
//! is in, and which of them make a row of the result · `functions/` the state of each function ·
//! `item_sweep.rs` deletes items of closed windows · `result_output.rs` sends the rows of the
//! result to the worker · `recorded_function.rs` the functions as the root records them ·
//! `stored_groups.rs` the groups as readers see them.

mod aggregation;
mod epoch_in_parts;
mod functions;
mod group_batch;
mod groups;
mod item_sweep;
mod moved_groups;
mod recorded_function;
mod result_output;
mod spec;
mod stored_groups;
mod window_spec;
mod windows;

pub use aggregation::Aggregation;
pub use spec::{AggregateColumn, AggregateFunction, AggregateSpec};
pub use stored_groups::{StoredGroup, StoredGroups, first_retained};
pub use window_spec::{Emit, HoppingWindow, Window};
