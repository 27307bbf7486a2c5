//! Arrow columns into Rust and out of it: `column.rs`, `column_stream.rs` in, `export.rs` out.

pub mod column;
mod column_stream;
pub mod export;
