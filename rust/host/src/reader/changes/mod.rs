//! Reads the changes of a table from the log: `read.rs` finds the epochs, `change_stream.rs` reads
//! their objects.

mod change_stream;
mod read;

pub use read::EpochSpan;
