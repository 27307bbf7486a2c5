//! A change stream stored as a table: the last row of each key, or all its versions by time.
//!
//! `spec.rs` settings · `table.rs` the work of a session.

mod spec;
mod table;

pub use spec::{MaterializeSpec, TableKind};
pub use table::Materialize;
