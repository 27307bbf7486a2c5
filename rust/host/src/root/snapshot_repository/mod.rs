//! `snapshots/`: copies of partitions' databases, each after one epoch.
//!
//! ```text
//! snapshots/<operator>/<partition>/<epoch, 20 digits>.<chain>.<term>            manifests, JSON
//! snapshots/<operator>/<partition>/<epoch, 20 digits>.<chain>.<term>.removal    a host removes it
//! snapshots/<operator>/<partition>/files/<digest>-<bytes>.<term>                files
//! ```
//!
//! RocksDB never changes a sorted file, so snapshots share these files, and a snapshot costs only
//! what was written since the one before. A manifest is put after its files. It is valid only if
//! its chain is that of the deciding run's object for its epoch.
//!
//! A term is `<run>.<generation>` of the owner that put the object. A new owner puts a file again
//! unless a snapshot that no host removes names it. So a former owner that stalls before a removal
//! does not remove a file of a later snapshot.

mod manifest;
mod partition_snapshots;
mod repository;
mod verify;

pub use partition_snapshots::PartitionSnapshots;
pub use repository::{KnownDigests, SnapshotRepository, SnapshotTransfer};
