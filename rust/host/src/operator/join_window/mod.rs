//! The join of two streams within a window.
//!
//! `spec.rs` settings · `join.rs` the work of a session · `matching.rs` the rows of some keys and
//! their pairs.

mod join;
mod matching;
mod spec;

pub use join::JoinWindow;
pub use spec::{JoinWindowKind, JoinWindowSpec};
