//! Rows as clients ask for them.

mod format;
mod row_writer;

pub use format::Format;
pub use row_writer::{RowWriter, json_rows};
