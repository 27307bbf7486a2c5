//! A state's root: everything that outlives a process, on a local disk or in an object store.
//!
//! ```text
//! meta.json                            format, query, partitions
//! operators/<name>.json                kind, columns, settings of an operator
//! operators/<name>.<version>.json      its payload columns or its stores' serdes after a change
//! runs/<run, 20 digits>                who claimed this run number
//! runs/ids/<digest of the run id>      which claims come before that run's
//! owners/<operator>/<partition>/<run, 20 digits>.<generation, 20 digits>
//!                                      which host serves a partition
//! log/<epoch, 20 digits>/<operator>.<partition>.<run>                          heads
//! log/<epoch, 20 digits>/<operator>.<partition>.<run>.<attempt>-<nonce>.<k>    chunks
//! snapshots/<operator>/<partition>/…   databases at some epoch (`snapshots.rs`)
//! ahead/<operator>/<epoch, 20 digits>.<partition>.arrow
//!                                      far-future rows, kept for people (`aside.rs`)
//! rewinds/<run, 20 digits>             the state was taken back to an epoch, by hand
//! removed/<run>/…                      what was taken away then (`rewind.rs`)
//! query/                               Spark's checkpoint
//! ```
//!
//! The log has a folder for each epoch: one short listing shows all that was staged for it, of all
//! operators, however long the log has grown (a flat folder of 10,000 objects takes tens of
//! milliseconds to list), and an epoch that is no longer needed is one folder to remove. The price
//! is one more fsync an epoch.
//!
//! All calls block. Objects are written once and never changed: put if absent, then read what is
//! there.

mod aside;
#[cfg(test)]
pub(crate) mod careless;
mod claims;
mod cleaning;
mod client;
mod decided;
mod failure;
#[cfg(test)]
mod faults;
mod heads;
mod location;
mod meta;
mod names;
mod operators;
mod owners;
mod reached;
mod rewind;
mod runtime;
mod serdes;
mod snapshots;
mod spark;
mod stage;
mod store;
mod transfer;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use holdfast_core::{Error, ErrorKind, Result};
use object_store::ObjectStore;
use parking_lot::Mutex;

pub use crate::codec::column::{Column, type_name};
pub use client::StorageOptions;
pub(crate) use failure::open_files;
pub use heads::{ChunkName, Head};
pub use operators::{KeptOperator, OperatorMeta, Payload};
pub use owners::{Asking, Ownership};
pub use reached::Reached;
pub use rewind::TakenBack;
pub use serdes::StoreSerdes;
pub use snapshots::{Known, Moved, SnapshotId};
pub use spark::SparkLogs;
pub use stage::Staged;

use crate::protocol::{Digest, Epoch, OperatorName, PartitionId, RunNumber, Term, Violation};
use location::Location;
use store::Store;

/// An open root. Cheap to share between threads (`Arc`); one for each root and host process.
#[derive(Debug)]
pub struct Root {
    store: Store,
    /// Run numbers by Spark's run id: a claim never changes.
    runs: Mutex<HashMap<String, RunNumber>>,
    /// Terms that this process holds: a claim never changes, so only a later one is looked for.
    held: Mutex<HashMap<(OperatorName, PartitionId), Term>>,
    /// Operators as a run found them.
    operators: Mutex<HashMap<OperatorName, operators::Known>>,
    /// The query, its run and its partitions that the root was last found to be of.
    checked: Mutex<Option<(String, String, u32)>>,
    /// The last epoch of which Spark's files were made durable, for which run.
    synced: Mutex<Option<(RunNumber, Epoch)>>,
    /// The newest epoch in the log, as a run found it.
    logged: Mutex<Option<(RunNumber, Option<Epoch>)>>,
    /// When the log was last cleaned.
    cleaned: Mutex<Option<Instant>>,
}

impl Root {
    /// Opens a root: a local path or `file://` URL, whose folder is made if it is missing, or an
    /// address such as `s3://bucket/prefix`, which is reached with these options. Of a bucket
    /// nothing is asked yet.
    ///
    /// # Errors
    /// `UnsupportedOperation` for another scheme, `InvalidValue` for an option that there is not,
    /// `Io` if the folder cannot be made.
    pub fn open(root: &str, options: &StorageOptions) -> Result<Self> {
        Ok(Self::of(Store::open(Location::parse(root)?, options)?))
    }

    /// Opens a root that is there: one that somebody types may be none, and is not to be made.
    ///
    /// # Errors
    /// `StateMismatch` for a folder that there is not, and those of [`Root::open`].
    pub fn existing(root: &str, options: &StorageOptions) -> Result<Self> {
        let location = Location::parse(root)?;
        if let Location::Local(path) = &location
            && !path.is_dir()
        {
            let text = "there is no such folder: give the root that State(...) was given";
            return Err(Error::new(ErrorKind::StateMismatch, text).path(path));
        }
        Ok(Self::of(Store::open(location, options)?))
    }

    /// A root over objects that are open already; `path` is what messages call it.
    #[must_use]
    pub fn over(objects: Arc<dyn ObjectStore>, path: &Path) -> Self {
        Self::of(Store::over(objects, path))
    }

    fn of(store: Store) -> Self {
        Self {
            store,
            runs: Mutex::default(),
            held: Mutex::default(),
            operators: Mutex::default(),
            checked: Mutex::default(),
            synced: Mutex::default(),
            logged: Mutex::default(),
            cleaned: Mutex::default(),
        }
    }

    /// Reaches the root with these options from now on; the last request's are the ones to use.
    ///
    /// # Errors
    /// `InvalidValue` for an option that there is not.
    pub fn renew(&self, options: &StorageOptions) -> Result<()> {
        self.store.renew(options)
    }

    /// Checks that checkpoint and state are this query's: once a run, since only somebody's hands
    /// could change it.
    ///
    /// # Errors
    /// Those of [`Root::check_spark`] and [`Root::meta`].
    pub fn check_query(
        &self,
        query_id: &str,
        run_id: &str,
        partitions: u32,
        epoch: Epoch,
    ) -> Result<()> {
        let checked = Some((query_id.to_owned(), run_id.to_owned(), partitions));
        if *self.checked.lock() != checked {
            self.check_spark(query_id, epoch)?;
            self.meta(query_id, partitions, epoch)?;
            *self.checked.lock() = checked;
        }
        Ok(())
    }

    /// The root's folder, or its address.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.store.path()
    }

    /// A rule of the protocol that would be broken by going on, for the user of this state.
    pub fn broken(&self, violation: impl Into<Violation>) -> Error {
        violation.into().at(self.path())
    }

    /// Below which folder this machine keeps its databases, if a request names none:
    /// `<root>/state`, or, for a root in an object store, a folder of its own beside this user's
    /// sockets, which workers have found to be private.
    #[must_use]
    pub fn local_dir(&self) -> PathBuf {
        if self.store.is_local() {
            return self.path().join("state");
        }
        let address = Digest::of(self.path().as_os_str().as_encoded_bytes());
        let user = rustix::process::getuid().as_raw();
        std::env::temp_dir()
            .join(format!("holdfast-{user}"))
            .join("state")
            .join(address.to_string())
    }
}
