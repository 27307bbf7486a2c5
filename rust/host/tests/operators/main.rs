//! Operators against models: random rows, cut into epochs in any way, over stores in memory.
//!
//! There is a file or a folder for each operator except `process`. `support/` has rows, and an
//! operator that runs epochs of them.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]
#![allow(missing_docs, reason = "an executable, not a library")]

mod aggregate;
mod asof_grace;
mod drop_duplicates;
mod extremes;
mod join_foreign_key;
mod join_table;
mod join_window;
mod large;
mod many_parts;
mod materialize;
mod sorting;
mod support;
