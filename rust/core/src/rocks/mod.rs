//! RocksDB: the only folder that imports its crate. A swap of crate would touch this folder alone.
//!
//! `unsafe` is allowed here (and nowhere else in this crate) for one reason: snapshots and
//! iterators of the crate borrow the database, ours own a share of it, so that a transaction or a
//! scan can be handed to another thread and outlive the call that made it. `database.rs` says how
//! closing stays safe.
//!
//! What RocksDB refuses is `StoreCorrupted` or `Io`, an option that it does not know `InvalidValue`
//! (`failure.rs`), and every call on a closed database `StoreClosed`.
#![allow(unsafe_code)]

pub(crate) mod batch;
mod commit_number;
mod cursor;
mod environment;
mod failure;
mod family;
mod kept;
mod last_commit;
mod log_gap;
mod log_record;
mod missing;
mod options;
mod rewrite;
mod rocks_db;
mod shared;
mod snapshot;
mod sorted_files;
mod statistics;

pub use batch::Batch;
pub use cursor::Cursor;
pub(crate) use cursor::RawIterator;
#[doc(hidden)]
pub use environment::Environment;
pub(crate) use environment::sync_path;
pub use family::Family;
pub(crate) use kept::{KEPT, kept_key};
pub(crate) use missing::put_back;
pub use options::RocksOptions;
pub(crate) use rewrite::Rewritten;
pub use rocks_db::RocksDb;
pub use shared::{SharedMemory, configure_shared_memory, shared_memory};
pub use snapshot::Snapshot;
pub(crate) use sorted_files::{SortedFiles, refused};
pub(crate) use statistics::{HitsAndMisses, Job, Tickers};
