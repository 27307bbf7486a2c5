//! Joins a left table with a right table by a foreign key in the left rows (KIP-213).
//!
//! The join has two stages:
//!
//! ```text
//! left rows ── by their own key ──▶ left_stage.rs: the left table, each row with its foreign key
//!                                      │ rows with an action (action.rs, forwarded_rows.rs)
//!                                      ▼ by foreign key
//! right rows ────────────────────▶ join_stage.rs: the left rows by (foreign key, left key), and
//!                                                 the right table
//! ```
//!
//! The current row of a left key in the result is the row with the greatest left time. Of rows with
//! the same left time it is the last one; within an epoch, that is the one with the greatest right
//! time. As of a moment, the same rule applies to the rows whose left time is at most that moment.
//! So a left row replaces all result rows of older left rows of its key, under any foreign key, and
//! the two stages need not wait for each other.
//!
//! The first stage stores each left row with its foreign key. If a newer row has another foreign
//! key, the first stage sends the removal of the stored row to the partition of the stored key. The
//! second stage finds the left rows of a right key by their prefix. Both process rows in the order
//! of time, and actions of one left key and time in the order in which the first stage made them.
//! One exception: the second stage applies `Drop` before all other rows of an epoch.

mod action;
mod forwarded_rows;
mod join_stage;
mod left_stage;
mod stored_left_row;

pub use join_stage::{ForeignJoin, ForeignJoinSpec};
pub use left_stage::{ForeignLeft, ForeignLeftSpec};
pub use stored_left_row::StoredLeftRow;
