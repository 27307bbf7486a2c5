//! How a database is opened: the options of RocksDB, its memory, its file system and its filters.

mod database_options;
mod environment;
mod family_options;
mod reserved_options;
mod rocks_options;
mod row_filter;
mod shared_memory;
mod user_options;

pub(super) use database_options::rocks_options;
pub use environment::Environment;
pub(super) use environment::path_in_memory;
pub(crate) use environment::sync_path;
pub(super) use family_options::family_options;
pub use rocks_options::RocksOptions;
pub use row_filter::{FilterPass, FilterSetup, RowFilter};
pub use shared_memory::{SharedMemory, configure_shared_memory, shared_memory};
pub use user_options::check_rocksdb_options;
