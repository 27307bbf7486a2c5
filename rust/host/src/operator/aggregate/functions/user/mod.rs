//! The user's functions, which run in Spark's Python worker.
//!
//! `user_function.rs` a function, with its states · `pending_rows.rs` the rows that it has not
//! received yet · `user_worker.rs` the conversation with the worker.

mod pending_rows;
mod user_function;
pub mod user_worker;

pub use user_function::{UserFunction, check_state_size};
