//! Transactional, versioned stores over RocksDB: the engine of Holdfast. It does not use Python,
//! Spark or the network.
//!
//! A [`Database`] is a directory with many stores and one transaction that spans them. A commit
//! writes the changes of all stores and their changelog offsets atomically.
//!
//! The sections `# Errors` omit the errors that every use of a database can return: `StoreClosed`,
//! `ForkedProcess` in a forked child of the process that opened it, `StoreCorrupted` if a file is
//! damaged, and `Io` if the operating system reports an error.
//!
//! ```
//! use holdfast_core::{Commit, Database, DatabaseOptions, StoreKind, StoreSpec, Timestamp};
//!
//! let dir = tempfile::tempdir()?;
//! let kind = StoreKind::Versioned { history_retention: 1_000, segment_interval: 100 };
//! let rates = StoreSpec::new("rates", kind);
//! let db = Database::open(dir.path(), &[rates], DatabaseOptions::default())?;
//! let rates = db.versioned("rates")?;
//!
//! let mut tx = db.begin()?;
//! rates.put(&mut tx, b"EUR", Some(b"1.08"), Timestamp(10))?;
//! rates.put(&mut tx, b"EUR", Some(b"1.10"), Timestamp(20))?;
//! db.commit_transaction(tx, Commit::default())?;
//!
//! let mut tx = db.begin()?;
//! let found = rates.get_as_of(&mut tx, b"EUR", Timestamp(15), |version| {
//!     version.map(|v| (v.value.to_vec(), v.valid_to))
//! })?;
//! assert_eq!(found, Some((b"1.08".to_vec(), Some(Timestamp(20)))));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod column;
mod database;
mod error;
mod expiry;
#[doc(hidden)]
pub mod failpoint;
mod metrics;
mod offset;
mod position;
pub mod rocks;
pub mod serde;
pub mod store;
mod store_spec;
mod sync;
pub mod table;
mod time;
pub mod transaction;

pub use database::{
    Commit, Database, DatabaseMetrics, DatabaseOptions, Durability, LongCall, Offsets,
    OpenTransaction, ProcessingGuarantee, StoreMetrics, StoreSerde, TransactionMechanism,
    check_store_name, check_topic, read_offsets, remove_offsets, write_offsets,
};
pub use error::{Error, ErrorKind, Result, panic_message};
pub use metrics::{Figure, FigureValue, MetricsLevel};
pub use offset::{Offset, OffsetChange, TopicPartition};
pub use position::Position;
pub use rocks::{Process, check_rocksdb_options, watch_forks};
pub use store::key_value::KeyValueStore;
pub use store::session::{SessionQuery, SessionScan, SessionStore};
pub use store::timestamped::{NO_TIMESTAMP, Stamped, StampedScan, TimestampedKeyValueStore};
pub use store::versioned::{
    Applied, Op, PutResult, Version, VersionRow, VersionScan, VersionedStore,
};
pub use store::window::{WindowPut, WindowScan, WindowStore};
pub use store::windowed::WindowedKey;
pub use store::{StoreKind, StoreSpec, default_segment_interval};
pub use time::Timestamp;
pub use transaction::{Scan, Step, Transaction};
