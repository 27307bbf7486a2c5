//! The rows of a result: their columns, their batches and their digest.
//!
//! `columns.rs` where each column comes from · `from_input.rs` batches of input rows ·
//! `from_bytes.rs` batches of joined rows (`row_sources.rs` where their columns come from) ·
//! `joined_rows.rs` sends joined rows in batches · `writer.rs` sends the batches to the worker ·
//! `digest.rs` what each row of a result adds to its digest.

mod columns;
mod digest;
mod from_bytes;
mod from_input;
mod joined_rows;
mod row_sources;
mod writer;

pub use columns::{ColumnSource, OutputColumn, OutputColumns, times_of};
pub use digest::digest_matched_row;
pub use from_bytes::JoinedSide;
pub use from_input::MatchedRight;
pub use joined_rows::JoinedRowWriter;
pub use writer::OutputWriter;
