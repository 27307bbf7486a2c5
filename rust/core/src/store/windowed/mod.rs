//! Rows with a key and a time, indexed by both. Window and session stores share them.
//!
//! The time is a window's start or a session's end. Rows older than the retention are refused by
//! writes, skipped by reads and dropped by compactions. Bytes: `layout.rs` · one scan of many rows:
//! `scan.rs` · many short scans at once: `find.rs`.

mod by_time;
mod find;
mod key;
mod layout;
mod row;
mod rows;
mod scan;
mod selection;

pub(in crate::store) use find::KeySpan;
pub use key::WindowedKey;
pub(in crate::store) use layout::time;
pub(crate) use layout::{expired, row_time};
pub use layout::{ordered, split_row};
pub(in crate::store) use row::WindowedRow;
pub(crate) use rows::WindowedRows;
pub(in crate::store) use scan::RowScan;
pub(in crate::store) use selection::Selection;
