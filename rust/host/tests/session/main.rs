//! Sessions as Spark drives them: hosts, clients, and Spark's checkpoint beside the state.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]
#![allow(missing_docs, reason = "an executable, not a library")]

mod epochs;
mod failures;
mod idle;
mod operator_catalog;
mod owners;
mod process;
mod readers;
mod rewind;
mod root_format;
mod snapshots;
mod support;
