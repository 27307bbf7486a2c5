//! The as-of join: each left row with the right row of its key that was current at the left row's
//! time.
//!
//! `spec.rs` settings · `plan.rs` the settings checked against the input's columns · `join.rs` the
//! work of a session · `lookup.rs` one batch through the store · `grace.rs` left rows that wait for
//! late right ones (`added_rows.rs` those of one epoch).

mod added_rows;
mod grace;
mod join;
mod lookup;
mod plan;
mod spec;

pub use join::AsofJoin;
pub use spec::{AsofJoinKind, AsofJoinSpec};
