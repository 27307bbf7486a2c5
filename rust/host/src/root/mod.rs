//! A state's root: everything that outlives a process, on a local disk or in an object store.
//!
//! ```text
//! meta.json                            id, query, partitions (`identity.rs`)
//! operators/<name>.json                kind, columns, settings of an operator
//! operators/<name>.<version>.json      its payload columns or its stores' serdes after a change
//!                                      (`operator_catalog/`)
//! runs/<run, 20 digits>                the run that claimed this number (`run_claims.rs`)
//! runs/ids/<digest of the run id>      the number after which that run's claim is searched
//! owners/<operator>/<partition>/<run, 20 digits>.<generation, 20 digits>
//!                                      which host serves a partition (`owners/`)
//! readers/<operator>/<partition>/<run, 20 digits>.<generation, 20 digits>
//!                                      where readers find that host (`owners/`)
//! log/<epoch, 20 digits>/<operator>.<partition>.<run>                                 heads
//! log/<epoch, 20 digits>/decided.<run of the newest rewind, or 0>                     the decision
//!                                      (`epoch_decisions/`)
//! log/<epoch, 20 digits>/chunks/<operator>.<partition>.<run>.<attempt>-<nonce>.<k>    chunks
//!                                      (`epoch_log/`)
//! log/<epoch, 20 digits>/chunks/<operator>.<partition>.<run>.<attempt>-<nonce>.0.arrow
//!                                      far-future rows of one attempt (`far_future_rows.rs`)
//! trims/<epoch, 20 digits>.<run>       a host removes the log before that epoch
//!                                      (`epoch_log/trims.rs`)
//! snapshots/<operator>/<partition>/…   databases after some epoch (`snapshot_repository/`)
//! ahead/<operator>/<epoch, 20 digits>.<partition>.arrow
//!                                      far-future rows of the valid attempt, for inspection
//! followers/<name>/<epoch, 20 digits>  the first epoch that a named follower needs
//!                                      (`followers.rs`)
//! rewinds/<run, 20 digits>             an epoch was taken back or dropped (`rewind_marks.rs`)
//! removed/<run>/…                      what `holdfast rewind` and `epoch drop` removed (`rewind/`)
//! query/                               Spark's checkpoint (`spark_checkpoint.rs`)
//! ```
//!
//! Each kind of object has one type that reads and writes it; only removals, `holdfast verify` and
//! the commands also access objects of other types. A type may have its own cache, and refers to
//! the other types that it needs. [`Root`] gives access to these types; it has only the methods
//! that need several of them.
//!
//! The log has a folder for each epoch. So one short listing shows what all operators have staged
//! for the epoch, however long the log is. (A listing of a flat folder of 10,000 objects takes tens
//! of milliseconds.) An old epoch is removed with its folder. The cost is one more fsync per epoch.
//!
//! All calls block. Besides the errors that they list, calls fail with `Io` if the disk or the
//! object store fails, with `UnsupportedOperation` for an operation that the object store does not
//! have, with `StoreClosed` if the host is ending, and with `FormatVersion` for an object of
//! another format version.
//!
//! Objects of the protocol are never overwritten: put if absent, then read what exists. Only files
//! of snapshots, whose names contain their digest, and files in `ahead/`, which no restore reads,
//! may be overwritten.

mod epoch_decisions;
mod epoch_log;
mod epochs;
mod far_future_rows;
mod followers;
mod garbage_collection;
mod identity;
mod lookahead;
mod names;
mod objects;
mod operator_catalog;
mod owners;
mod rewind;
mod rewind_marks;
mod run_claims;
mod snapshot_repository;
mod spark_checkpoint;
mod state_root;
mod store_check;
#[cfg(test)]
pub(crate) mod testing;
mod verification;

pub use crate::codec::column::{Column, type_name};
pub use epoch_decisions::{DecisionAsker, EpochDecisions, PreviousEpoch, RanSince};
pub use epoch_log::{EpochLog, Head};
pub use epochs::{EpochProgress, EpochStatus, OperatorProgress, StageOutcome};
pub use far_future_rows::{FarFutureRows, PublishedRows, StagedRows};
pub use followers::{FollowerName, Followers};
pub use garbage_collection::{GarbageCollection, LogRetention};
pub use identity::{RootIdentity, RootPresence};
pub use lookahead::Lookahead;
pub use names::{ChunkName, SnapshotId};
pub use objects::StorageOptions;
pub(crate) use objects::open_files;
pub use operator_catalog::{
    OperatorCatalog, OperatorMeta, PayloadSchema, RecordedOperator, StoreSerdes, StoredKind,
    StoredOperator, StoredStore, descriptor_bytes,
};
pub use owners::{OwnerClaims, Ownership, OwnershipRequest, ReaderAddress, ReaderAddresses};
pub use rewind::RemovedObjects;
pub use run_claims::RunClaims;
pub use snapshot_repository::{
    KnownDigests, PartitionSnapshots, SnapshotRepository, SnapshotTransfer,
};
pub use spark_checkpoint::{OffsetsFile, SparkCheckpoint, SparkLogs};
pub use state_root::Root;
pub use store_check::StoreCheck;
pub use verification::{Damage, VerificationProgress, VerificationReport};
