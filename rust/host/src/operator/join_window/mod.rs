//! The join of two streams within a window.
//!
//! `spec.rs` settings · `join.rs` the work of a session · `new_rows.rs` the rows of an epoch by key
//! · `waiting_side.rs` the waiting rows of a side · `matching.rs` the rows of some keys and their
//! pairs.

mod join;
mod matching;
mod new_rows;
mod spec;
mod waiting_side;

pub use join::JoinWindow;
pub use spec::{JoinWindowKind, JoinWindowSpec};
