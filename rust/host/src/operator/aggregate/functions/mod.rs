//! The functions of an aggregation: the state of each for a group, and the result computed from it.
//!
//! `accumulator.rs` the interface of all functions · `registry.rs` the functions by name ·
//! `accumulators.rs` those of an aggregation together · `count.rs`, `sum.rs`, `avg.rs`
//! (`decimal.rs` their decimals), `variance.rs` · `picked/` one value of many (min, max, first,
//! last, bool_and, bool_or) · `ranked/` the values of the rows with the greatest or the least
//! orders · `collected/` single values in a store (distinct values, lists, sets) · `user/` the
//! user's functions, which run in the worker.

mod accumulator;
mod accumulators;
mod avg;
mod collected;
mod count;
mod decimal;
mod picked;
mod ranked;
mod registry;
mod sum;
mod user;
mod variance;

pub use accumulator::Access;
pub use accumulators::Accumulators;
pub use registry::result_type;
pub use user::user_worker;
