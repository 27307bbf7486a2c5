//! The join of a table with another one that its rows name by a foreign key (KIP-213), in two
//! stages.
//!
//! ```text
//! left rows ── by their own key ──▶ left_stage.rs: the left table, each row with its foreign key
//!                                      │ actions: subscribe, unsubscribe (action.rs)
//!                                      ▼ by foreign key
//! right rows ────────────────────▶ join_stage.rs: subscriptions (foreign key, left key), the right
//!                                                 table
//! ```
//!
//! The current row of a left key in the result is the row with the greatest left time; of rows with
//! the same left time, the last one. As of a moment it is, of the rows up to that moment, the one
//! with the greatest right time. A left row therefore replaces all rows that older left rows of its
//! key gave, under any foreign key, and the two stages need not wait for each other.
//!
//! The first stage knows a row's old foreign key, so it can send the end of the row to the
//! partition of that key. The second stage finds the left rows of a right key by their prefix. Both
//! process rows in the order of time, and actions of one left key and time in the order in which
//! the first stage made them.

mod action;
mod join_stage;
mod left_stage;
mod stored_left_row;

pub use join_stage::{ForeignJoin, ForeignJoinSpec};
pub use left_stage::{ForeignLeft, ForeignLeftSpec};
