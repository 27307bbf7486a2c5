//! Rows of one side that wait. The rows of one key and one time are one record of a window store.
//!
//! `store.rs` the stored rows and the changes of an epoch · `record.rs` a record's bytes ·
//! `found_rows.rs` rows that have been read · `closed_rows.rs` stored rows that are closed ·
//! `changed_records.rs` records that an epoch changes, of which `record_runs.rs` are on disk ·
//! `close_limit.rs` the time up to which rows are closed.

mod changed_records;
mod close_limit;
mod closed_rows;
mod found_rows;
mod record;
mod record_runs;
mod store;

pub use changed_records::SpillLimit;
pub use close_limit::CloseLimit;
pub use closed_rows::{ClosedRow, ClosedRows};
pub use record::{WaitingRow, push_row, split_row, unreadable_row};
pub use store::{RowRequest, WaitingRows};
