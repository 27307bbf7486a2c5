//! The changes of a table, from the log: which epochs a read is of (`read.rs`), and the objects
//! that decided them (`change_stream.rs`).

mod change_stream;
mod read;

pub use read::EpochSpan;
