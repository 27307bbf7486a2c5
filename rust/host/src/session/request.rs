//! What a worker asks of a session and hears back, as JSON.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use holdfast_core::rocks::{SharedMemory, configure_shared_memory, shared_memory};
use holdfast_core::{DatabaseOptions, Durability, Error, ErrorKind, ProcessingGuarantee, Result};
use serde::{Deserialize, Serialize};

use crate::host::Host;
use crate::operator::{Counts, OperatorRequest};
use crate::partition::SnapshotPolicy;
use crate::protocol::{Attempt, Digest, Epoch, HostId, PartitionId, RunNumber};
use crate::root::StorageOptions;

/// A cache below this helps nobody.
const MIN_CACHE: usize = 8 << 20;

/// A session's request.
#[derive(Debug, Clone, Deserialize)]
pub struct Request {
    /// The state's root; none for a scratch session.
    pub root: Option<String>,
    /// How the root's object store is reached. Not in files: it may hold secrets.
    #[serde(default)]
    pub storage_options: StorageOptions,
    /// Where local databases lie, in a folder for each query; [`crate::root::Root::local_dir`] if
    /// not given.
    pub local_dir: Option<PathBuf>,
    /// Nothing is kept: the session begins with empty state and stages nothing.
    #[serde(default)]
    pub scratch: bool,
    /// Spark's query id.
    pub query_id: Option<String>,
    /// Spark's run id.
    pub run_id: Option<String>,
    /// The epoch.
    pub epoch: Option<Epoch>,
    /// Of which partition.
    pub partition: PartitionId,
    /// How many partitions the state has.
    pub partitions: u32,
    /// Which attempt at the task.
    pub attempt: Attempt,
    /// The Spark application; none where there is only one executor.
    #[serde(default)]
    pub application: Option<String>,
    /// Hosts that did not answer when the session was sent there, and how that was seen.
    #[serde(default)]
    pub gone: HashMap<HostId, String>,
    /// Which call of the operator: two calls of one name would mix their state.
    pub instance: String,
    /// Settings of the state.
    #[serde(default)]
    pub settings: Settings,
    /// What is to be done.
    pub operator: OperatorRequest,
}

/// Settings of the state.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Memory of a host for what is staged and not committed, in bytes; what is above it goes to
    /// disk. -1: without a limit.
    pub uncommitted_max_bytes: i64,
    /// Memory of a host, in bytes.
    pub memory: i64,
    /// The least time between two snapshots of a partition: microseconds.
    pub snapshot_interval: u64,
    /// Epochs of the log that stay, whatever snapshots there are.
    pub retain_epochs: i64,
    /// Whether an epoch that is computed again must come to the same.
    pub processing_guarantee: ProcessingGuarantee,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            uncommitted_max_bytes: 64 << 20,
            memory: 512 << 20,
            snapshot_interval: 300_000_000,
            retain_epochs: 100,
            processing_guarantee: ProcessingGuarantee::default(),
        }
    }
}

impl Settings {
    /// Divides the host's memory: a quarter each for blocks of files, for rows that are not in
    /// files yet, and for rows that are being put in order; what is left, for what is staged and
    /// what a session works with. The last request wins; queries of one executor share one host.
    pub(crate) fn apply_memory(&self, host: &Host) {
        let quarter = usize::try_from(self.memory / 4).unwrap_or(0);
        let wanted = SharedMemory {
            block_cache: quarter.max(MIN_CACHE),
            write_buffers: quarter.max(MIN_CACHE),
        };
        if shared_memory() != wanted {
            configure_shared_memory(wanted);
        }
        host.sorting.set_limit(quarter);
        host.uncommitted
            .set_limit(usize::try_from(self.uncommitted_max_bytes).unwrap_or(usize::MAX));
    }

    /// When snapshots are taken, and how much log is kept.
    pub fn snapshots(&self) -> SnapshotPolicy {
        SnapshotPolicy {
            interval: Duration::from_micros(self.snapshot_interval),
            retain_epochs: self.retain_epochs,
        }
    }

    /// How the databases are opened: without a log of their own, since the state's log brings back
    /// what a crash loses.
    pub fn database_options(&self) -> DatabaseOptions {
        DatabaseOptions {
            durability: Durability::Changelog,
            uncommitted_max_bytes: self.uncommitted_max_bytes,
            ..DatabaseOptions::default()
        }
    }
}

/// Which epoch of which query a persistent session belongs to.
#[derive(Debug, Clone)]
pub struct Place {
    /// The state's root.
    pub root: String,
    /// Spark's query id.
    pub query_id: String,
    /// Spark's run id.
    pub run_id: String,
    /// The epoch.
    pub epoch: Epoch,
}

impl Request {
    /// Reads a request.
    ///
    /// # Errors
    /// `InvalidValue` says what is missing or wrong.
    pub fn parse(json: &[u8]) -> Result<Self> {
        let wrong =
            |what: String| Error::new(ErrorKind::InvalidValue, format!("session request: {what}"));
        let request: Self =
            serde_json::from_slice(json).map_err(|error| wrong(error.to_string()))?;
        let partition = u32::try_from(request.partition.0).ok();
        if partition.is_none_or(|partition| partition >= request.partitions) {
            return Err(wrong(format!(
                "partition {} of {} partitions",
                request.partition, request.partitions
            )));
        }
        Ok(request)
    }

    /// Where the session's state belongs; none for a scratch session.
    ///
    /// # Errors
    /// `InvalidValue` names what is missing: a persistent state without an epoch is never silently
    /// an empty one.
    pub fn place(&self) -> Result<Option<Place>> {
        if self.scratch {
            return Ok(None);
        }
        let missing = |what: &str| {
            Error::new(
                ErrorKind::InvalidValue,
                format!("session request: a persistent state needs {what}"),
            )
        };
        Ok(Some(Place {
            root: self.root.clone().ok_or_else(|| missing("a root"))?,
            query_id: self.query_id.clone().ok_or_else(|| missing("a query_id"))?,
            run_id: self.run_id.clone().ok_or_else(|| missing("a run_id"))?,
            epoch: self
                .epoch
                .filter(|epoch| epoch.0 >= 0)
                .ok_or_else(|| missing("an epoch"))?,
        }))
    }
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// The epoch; none in a scratch session.
    pub epoch: Option<Epoch>,
    /// The epoch that the session stands on; none before the first one. It is made final by the
    /// time the input has ended.
    pub state_epoch: Option<Epoch>,
    /// The run's number; none in a scratch session.
    pub run: Option<RunNumber>,
    /// The partition.
    pub partition: PartitionId,
}

/// What became of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staged {
    /// The epoch; none in a scratch session.
    pub epoch: Option<Epoch>,
    /// The digest of the changes and output that are staged; none in a scratch session.
    pub digest: Option<Digest>,
    /// An earlier session had staged before; under at-least-once it may have come to other results,
    /// which then count.
    pub adopted: bool,
    /// Records in the log object.
    pub records: u64,
    /// Rows by what became of them.
    #[serde(flatten)]
    pub counts: Counts,
}
