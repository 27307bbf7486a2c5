//! The rows below a transaction's staged records: committed rows, in files and in memory, and its
//! spilled rows.

pub(super) mod base;
pub(super) mod cursor;
pub(super) mod memory_table;
pub(super) mod spilled_row;
pub(super) mod spilled_rows;
