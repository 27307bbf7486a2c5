//! Decoders of Holdfast's byte formats, fed with bytes that Holdfast did not write: the result is
//! an answer or an error, never a panic, and never much more memory at once than the bytes can
//! justify.
//!
//! Inputs are the files of `corpus/`, random values that Holdfast encoded, and mutations of both.
//! An input that fails is added to `corpus/`, and later runs try it again. If a test encodes a
//! decoded value again, the new bytes must decode to the same value.

mod columns;
mod database_files;
mod feed;
mod log_objects;
mod memory;
mod messages;
mod requests;
mod root;
mod state;
