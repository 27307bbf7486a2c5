//! The join of a table with another one that its rows name by a foreign key (KIP-213), in two
//! stages.
//!
//! ```text
//! left rows ── by their own key ──▶ left.rs: the left table, each row's foreign key
//!                                      │ actions: subscribe, unsubscribe (action.rs)
//!                                      ▼ by foreign key
//! right rows ────────────────────▶ join.rs: subscriptions (foreign key, left key), the right table
//! ```
//!
//! The result is read by left time first: of the rows of a key those with the greatest left time
//! hold, of these the last to come; as of a moment, of those up to it the one with the greatest
//! right time. So a left row replaces all that its older ones gave, wherever that was, and the two
//! stages need not wait for each other.
//!
//! The first stage knows a row's old foreign key, so that the partition of that one hears of its
//! end; the second finds the left rows of a right key by its prefix. Both work in the order of
//! time; actions of one left key and time in the order in which the first stage made them.

mod action;
mod join;
mod left;

pub use join::{ForeignJoin, Spec as JoinSpec};
pub use left::{ForeignLeft, Spec as LeftSpec};
