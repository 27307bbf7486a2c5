//! Arrow columns between Python and Rust.
//!
//! `column.rs`, `column_stream.rs` import · `export.rs` export · `row.rs` one row as Python's
//! values.

pub mod column;
mod column_stream;
pub mod export;
pub mod row;
