//! The join of two streams within a window.
//!
//! `spec.rs` settings · `join.rs` the work of a session · `new_rows.rs` the rows of a part by key ·
//! `epoch_sides.rs` the waiting rows of both sides, `waiting_side.rs` of one · `matching.rs` the
//! rows of some keys and their pairs · `held_key.rs` the same for a key whose rows are in files, in
//! `row_blocks.rs`.

mod epoch_sides;
mod held_key;
mod join;
mod matching;
mod new_rows;
mod row_blocks;
mod spec;
mod waiting_side;

pub use join::JoinWindow;
pub use spec::{JoinWindowKind, JoinWindowSpec};
