//! Windows: how rows are put into groups, where the groups' states are stored, and which groups
//! make a row of the result.
//!
//! `windowing.rs` the interface of all kinds of windows · `by_key.rs` no windows, one group for
//! each key · `hopping.rs` windows of one length at fixed places · `sessions/` windows separated by
//! pauses · `sliding.rs` windows that begin and end at rows · `clock.rs` which rows are late and
//! which windows are closed · `results.rs` the rows of the result · `window_store.rs` groups in a
//! window store · `open.rs` the windows of an aggregation.

mod by_key;
mod clock;
mod hopping;
mod open;
mod results;
mod sessions;
mod sliding;
mod window_store;
mod windowing;

pub use clock::{TimeProgress, WindowClock};
pub use open::open_windows;
pub use results::{ResultRow, ResultRows};
pub use windowing::Windows;
