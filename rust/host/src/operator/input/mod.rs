//! The rows that an operator takes: their columns, their bytes, their order.
//!
//! The rows of all operators have the same form, with one side or two.
//!
//! `columns.rs` the columns · `layout.rs` how they are encoded · `admission.rs` heartbeats and
//! far-future rows, which no operator processes (`far_future_file.rs`) · `batch.rs` one encoded
//! batch · `order.rs` the order in which an epoch's rows are processed, independent of the
//! shuffle's order (`order_columns.rs` the columns that order rows of equal times) · `rows.rs` the
//! rows of a session, which spill to `sorted_run.rs` and are merged by `merge.rs` · `digest.rs`
//! their digest.

mod admission;
mod batch;
mod columns;
mod digest;
mod far_future_file;
mod layout;
mod merge;
mod order;
mod order_columns;
mod rows;
mod sorted_run;

pub use admission::Admission;
pub use batch::InputBatch;
pub use columns::{RowsSpec, TIME};
pub use far_future_file::FarFutureFile;
pub use layout::{InputLayout, StoredSides};
pub use order::{RowOrder, RowPlace};
pub use rows::{InputRows, Intake};
