//! The stores, a file for each kind with its class and its iterator.
//!
//! `store_handle.rs`, `row_iterator.rs` what all kinds share · `windowed.rs` what windows and
//! sessions share · `put_columns.rs` the results of puts into the versioned store ·
//! `bytes_argument.rs` keys and values as the user gives them.

mod bytes_argument;
pub mod key_value;
mod put_columns;
mod row_iterator;
pub mod session;
pub mod store_handle;
pub mod timestamped;
pub mod versioned;
pub mod window;
mod windowed;
