//! Sessions as Spark drives them: a host, clients, and a fake Spark checkpoint beside the state.
//!
//! `support.rs` the cast · `epochs.rs` what happens over epochs, runs and attempts ·
//! `at_least_once.rs` the same where results may differ · `failures.rs` hosts, directories and
//! connections that go away · `full_disk.rs` no space left, and space again · `owners.rs` several
//! hosts on one root · `refusals.rs` what must not be accepted · `rewind.rs` epochs taken back by
//! hand · `rows.rs` what the join gives for which rows · `oracle.rs` the same against a model, at
//! random.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]
#![allow(missing_docs, reason = "an executable, not a library")]

mod at_least_once;
mod bounded;
mod epochs;
mod failures;
mod full_disk;
mod operators;
mod oracle;
mod owners;
mod process;
mod refusals;
mod rewind;
mod rows;
mod snapshots;
mod support;
