//! The process operator: runs the user's code in Spark's Python worker, with its state in the host.
//!
//! `spec.rs` settings · `processor.rs` the work of a session · `calls/` the calls that the code
//! makes · `output_digest.rs` the digest of the code's output · `timers.rs` the store of its
//! timers.

mod calls;
mod output_digest;
mod processor;
mod spec;
mod timers;

pub use output_digest::OutputDigest;
pub use processor::Process;
pub use spec::{ProcessSpec, ProcessStore};
