//! Rows as clients ask for them.

mod exposition;
mod format;
mod row_writer;
mod time_encoder;

pub use exposition::{Exposition, MEDIA_TYPE};
pub use format::Format;
pub use row_writer::{RowWriter, json_rows};
