//! Databases of older layouts, which hold offsets and positions in text files
//! (`docs/design/stores.md`).
//!
//! An open moves them into the database. With `DatabaseOptions::older_layout` a close writes them
//! back to text files and drops the database's own families. Rows that an older layout cannot hold
//! (format, stream times, serdes, offsets by store) are saved in the `default` family, so a round
//! trip loses nothing. Text files that differ from what the close wrote take precedence: the
//! database was used in the older layout in between.

mod files;
mod move_in;
mod move_out;
mod text_file;

pub(super) use move_in::{check_topics, move_in};
pub use text_file::{Offsets, check_topic, read_offsets, remove_offsets, write_offsets};
