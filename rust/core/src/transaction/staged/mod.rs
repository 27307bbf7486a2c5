//! The staged records of a transaction: in memory, indexed by key and sorted on demand.

mod arena;
pub(super) mod cleared;
mod key_index;
mod key_order;
pub(super) mod latest_rows;
pub(super) mod layer;
pub(super) mod layer_cursor;
pub(super) mod record;
mod record_log;
pub(super) mod table_buffer;
