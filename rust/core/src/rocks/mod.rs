//! All use of RocksDB. No other folder of `src` imports the RocksDB crate.
//!
//! `unsafe` is allowed only in this folder. It is needed in three places:
//!
//! - The RocksDB crate's snapshots and iterators borrow the database. Those of Holdfast share its
//!   ownership, so a transaction or a scan can be sent to another thread and outlive the call that
//!   made it. `rocks_db.rs` explains why a close is safe.
//! - Forks are counted, and a forked child gives up the directory locks of its parent (`forks.rs`,
//!   `directory_lock/file_lock.rs`).
//! - Column families and file systems come as raw pointers (`family.rs`, `options/environment.rs`).
//!
//! RocksDB's errors become `StoreCorrupted`, `StoreLocked` or `Io`, and `InvalidValue` for an
//! unknown option (`failure.rs`, `open.rs`). Reads and writes of a closed database fail with
//! `StoreClosed`.
#![allow(unsafe_code)]

pub(crate) mod batch;
mod cursor;
mod directory_lock;
mod failure;
mod family;
mod forks;
mod open;
mod operations;
mod options;
mod raw_iterator;
mod recovery;
mod rocks_db;
mod snapshot;
mod statistics;

pub use batch::Batch;
pub use cursor::Cursor;
pub(crate) use directory_lock::{DirectoryLock, HOLDER};
pub(crate) use failure::io_failure;
pub use family::Family;
pub use forks::process::Process;
pub use forks::watch_forks;
pub(crate) use open::list_families;
pub(crate) use operations::rewrite::Rewritten;
pub(crate) use operations::sorted_files::SortedFiles;
#[doc(hidden)]
pub use options::Environment;
pub(crate) use options::sync_path;
pub use options::{
    FilterPass, FilterSetup, RocksOptions, RowFilter, SharedMemory, check_rocksdb_options,
    configure_shared_memory, shared_memory,
};
pub(crate) use raw_iterator::RawIterator;
pub(crate) use recovery::missing_files::put_back;
pub use rocks_db::RocksDb;
pub use snapshot::Snapshot;
pub(crate) use statistics::{HitsAndMisses, Job, Tickers};
