//! Arrow columns into Rust and out of it: `column.rs`, `column_stream.rs` in, `export.rs` out;
//! `row.rs`: one row as Python's own values.

pub mod column;
mod column_stream;
pub mod export;
pub mod row;
