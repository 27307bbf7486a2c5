//! A state's root: everything that outlives a process, on local disk (or, later, an object store).
//!
//! ```text
//! meta.json                            format, query, partitions
//! operators/<name>.json                kind, columns, settings of an operator
//! operators/<name>.<version>.json      its payload columns since they were changed
//! runs/<run, 20 digits>                who claimed this run number
//! owners/<operator>/<partition>/<run, 20 digits>.<generation, 20 digits>       which host serves a partition
//! log/<epoch, 20 digits>/<operator>.<partition>.<run>                          heads
//! log/<epoch, 20 digits>/<operator>.<partition>.<run>.<attempt>-<nonce>.<k>    chunks
//! snapshots/<operator>/<partition>/…   databases at some epoch (`snapshots.rs`)
//! query/                               Spark's checkpoint
//! ```
//!
//! The log has a folder for each epoch: one short listing shows all that was staged for it, of all operators, however
//! long the log has grown (a flat folder of 10,000 objects takes tens of milliseconds to list), and an epoch that is no
//! longer needed is one folder to remove. The price is one more fsync an epoch.
//!
//! All calls block. Objects are written once and never changed: put if absent, then read what is there.

#[cfg(test)]
mod careless;
mod claims;
mod decided;
mod failure;
mod heads;
mod location;
mod meta;
mod names;
mod operators;
mod owners;
mod runtime;
mod snapshots;
mod spark;
mod stage;
mod store;

use std::collections::HashMap;
use std::path::Path;

use holdfast_core::Result;
use parking_lot::Mutex;

pub use heads::{ChunkName, Head};
pub use operators::{Column, KeptOperator, OperatorMeta, Payload};
pub use owners::{Asking, Ownership};
pub use snapshots::{Known, Moved, SnapshotId};
pub use stage::Staged;

use crate::protocol::{Epoch, OperatorName, Partition, RunNumber, Term};
use store::Store;

/// An open root. Cheap to share between threads (`Arc`); one for each root and host process.
#[derive(Debug)]
pub struct Root {
    store: Store,
    /// Run numbers by Spark's run id: a claim never changes.
    runs: Mutex<HashMap<String, RunNumber>>,
    /// Terms that this process holds: a claim never changes, so only a later one is looked for.
    held: Mutex<HashMap<(OperatorName, Partition), Term>>,
    /// Operators as a run found them.
    operators: Mutex<HashMap<OperatorName, operators::Known>>,
    /// The last epoch of which Spark's files were made durable, for which run.
    synced: Mutex<Option<(RunNumber, Epoch)>>,
}

impl Root {
    /// Opens a root: a local path or `file://` URL. The folder is made if it is missing.
    ///
    /// # Errors
    /// `UnsupportedOperation` for another scheme, `Io` if the folder cannot be made.
    pub fn open(root: &str) -> Result<Self> {
        let store = Store::open(&location::local(root)?)?;
        Ok(Self { store, runs: Mutex::default(), operators: Mutex::default(), held: Mutex::default(), synced: Mutex::default() })
    }

    /// The root on local disk.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.store.path()
    }
}
