//! One value of many: the least, the greatest, the first, the last.
//!
//! `pick.rs` which value is picked · `picked_values.rs` the accumulator of a column ·
//! `picked_numbers.rs` values of a fixed width · `picked_bytes.rs` other values ·
//! `picked_state.rs` the columns of the state, the same for both.

mod pick;
mod picked_bytes;
mod picked_numbers;
mod picked_state;
mod picked_values;

pub use pick::{Pick, PickFunction};
pub use picked_values::picked_values;
