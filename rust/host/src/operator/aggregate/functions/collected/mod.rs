//! Functions that need each value of a group: distinct counts, lists, sets.
//!
//! `items.rs` the functions · `counted_items.rs` the values that an epoch adds · `stored_items.rs`
//! the bytes of the values in their store.

mod counted_items;
mod items;
mod stored_items;

pub use items::{Items, ItemsFunction};
