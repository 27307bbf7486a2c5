//! The join of two tables: two change streams of one key, each stored as a versioned table.
//!
//! `spec.rs` settings · `join.rs` the work of a session.

mod join;
mod spec;

pub use join::JoinTable;
pub use spec::{JoinTableKind, JoinTableSpec, LEFT, RIGHT, table_stores};
