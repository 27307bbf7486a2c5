//! Windows: how rows are put into groups, where the groups' states are stored, and which groups
//! make a row of the result.
//!
//! `windowing.rs` the interface of all kinds of windows · `by_key.rs` no windows, one group for
//! each key · `hopping.rs` windows of one length at fixed places · `session.rs` windows separated
//! by pauses (`row_runs.rs` an epoch's rows between pauses) · `sliding.rs` windows that begin and
//! end at rows · `clock.rs` which rows are late and which windows are closed · `results.rs` the
//! rows of the result · `window_store.rs`, `session_store.rs` groups in a store · `open.rs` the
//! windows of an aggregation.

mod by_key;
mod clock;
mod hopping;
mod open;
mod results;
mod row_runs;
mod session;
mod session_store;
mod sliding;
mod window_store;
mod windowing;

pub use clock::{TimeProgress, WindowClock};
pub use open::open_windows;
pub use results::{ResultRow, ResultRows};
pub use windowing::Windows;
