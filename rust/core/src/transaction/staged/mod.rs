//! What a transaction has staged: records in memory, indexed by key and sorted on demand.

pub(super) mod arena;
pub(super) mod cleared;
pub(super) mod latest_rows;
pub(super) mod layer;
pub(super) mod layer_cursor;
pub(super) mod record;
pub(super) mod table_buffer;
