//! Numbers for keys, and for pairs of a key and a time, in the order in which they are first seen.
//!
//! `key_numbers.rs` keys by number · `pair_numbers.rs` pairs by number · `number_table.rs` the hash
//! table of both.

mod key_numbers;
mod number_table;
mod pair_numbers;

pub use key_numbers::KeyNumbers;
pub use pair_numbers::PairNumbers;
