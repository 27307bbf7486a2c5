//! Operators: what a session does with its rows.
//!
//! Each operator is a folder with the settings that a request has for it (usually in `spec.rs`) and
//! the work of one session. `registry.rs` lists the operators by kind. All operators share:
//!
//! - `spec.rs`, `execution.rs`, `worker.rs`: the traits of an operator's settings, of its work and
//!   of the worker at the other end. `outcome.rs`: what a run returns.
//! - `input/`: the rows of an epoch in order. `output/`: the rows of the result.
//! - `batch_size.rs`: how many rows a store call or an output batch has.
//! - `numbering/`: numbers for the keys of an epoch.
//! - `waiting_rows/`: rows that wait for others, in a store. `table_timeline.rs`: the changes of a
//!   table's key from a time on. `temporary_file.rs`: a file of rows or intermediate results.

pub mod aggregate;
pub mod asof_join;
mod batch_size;
pub mod drop_duplicates;
mod execution;
pub mod input;
pub mod join_foreign_key;
pub mod join_table;
pub mod join_window;
pub mod materialize;
mod numbering;
mod outcome;
mod output;
pub mod process;
mod registry;
mod spec;
mod table_timeline;
mod temporary_file;
mod waiting_rows;
mod worker;

pub use execution::Operator;
pub use outcome::Outcome;
pub use output::{ColumnSource, OutputColumn};
pub use registry::{OperatorKind, OperatorRequest};
pub use spec::OperatorSpec;
pub use worker::Worker;
