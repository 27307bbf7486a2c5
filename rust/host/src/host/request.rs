//! The request that opens a session, and the answers, as JSON.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use holdfast_core::{DatabaseOptions, Durability, Error, ErrorKind, ProcessingGuarantee, Result};
use serde::{Deserialize, Serialize};

use crate::net::writer_key::WriterSecret;
use crate::operator::OperatorRequest;
use crate::partition::{FlushPolicy, SnapshotPolicy};
use crate::protocol::{
    Attempt, Counts, Digest, Epoch, HostId, IsolationLevel, Owner, PartitionId, RunNumber,
};
use crate::root::StorageOptions;

/// The request of a session.
#[derive(Debug, Clone, Deserialize)]
pub struct Request {
    /// The state's root; `None` for a scratch session.
    pub root: Option<String>,
    /// How to connect to the root's object store. Never written to files: it may hold secrets.
    #[serde(default)]
    pub storage_options: StorageOptions,
    /// Where local databases are, in a folder for each query; by default
    /// [`crate::root::Root::local_dir`].
    pub local_dir: Option<PathBuf>,
    /// Whether the session begins with empty state and stages nothing.
    #[serde(default)]
    pub scratch: bool,
    /// Spark's query id.
    pub query_id: Option<String>,
    /// Spark's run id.
    pub run_id: Option<String>,
    /// The epoch.
    pub epoch: Option<Epoch>,
    /// The batch timestamp in the task's plan, in epoch milliseconds; `None` if the task does not
    /// know it, for example because the partition has no rows that carry it.
    #[serde(default)]
    pub planned_at: Option<i64>,
    /// Whether the operator is in the streaming plan, so that it runs in each epoch. Otherwise a
    /// `foreachBatch` function may call it.
    #[serde(default)]
    pub in_streaming_plan: bool,
    /// The partition of the session.
    pub partition: PartitionId,
    /// How many partitions the state has.
    pub partitions: u32,
    /// The attempt at the Spark task.
    pub attempt: Attempt,
    /// The id of the Spark application; `None` if Spark names none.
    #[serde(default)]
    pub application: Option<String>,
    /// Hosts that did not answer when the session was sent there, with the reason.
    #[serde(default, rename = "gone")]
    pub unreachable: HashMap<HostId, String>,
    /// The driver's secret. With it, workers of other executors prove that they belong to the
    /// query. None in a session at another executor's host, and in a scratch session.
    #[serde(default)]
    pub writer_secret: Option<WriterSecret>,
    /// Identifies the operator's call. Two calls whose operators have the same name would mix their
    /// state.
    pub instance: String,
    /// Settings of the state.
    #[serde(default)]
    pub settings: Settings,
    /// The operator to run.
    pub operator: OperatorRequest,
}

/// Settings of the state.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Memory of a host for changes that are staged and not committed, in bytes; their part of
    /// `memory` if that is less. Larger changes spill to disk. -1: no limit.
    pub uncommitted_max_bytes: i64,
    /// Memory of a host, in bytes.
    pub memory: i64,
    /// The time after which the next snapshot of a partition is due, in microseconds. It may be due
    /// earlier, for example if much has changed.
    pub snapshot_interval: u64,
    /// The number of newest epochs whose log is retained despite snapshots.
    pub retain_epochs: i64,
    /// How many epochs a named follower may be behind before the log is removed without regard to
    /// it.
    pub max_follower_lag: i64,
    /// Whether a recomputed epoch must have the same results.
    pub processing_guarantee: ProcessingGuarantee,
    /// The time since a database's last flush after which an epoch flushes it, in microseconds.
    pub flush_interval: u64,
    /// The committed rows that are not in files, in bytes, above which an epoch flushes a database.
    pub flush_bytes: u64,
    /// RocksDB's option strings; they take effect when a database is opened.
    pub rocksdb_options: Vec<(String, String)>,
    /// The isolation level of readers that name none.
    pub default_isolation_level: IsolationLevel,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            uncommitted_max_bytes: 64 << 20,
            memory: 512 << 20,
            snapshot_interval: 300_000_000,
            retain_epochs: 100,
            max_follower_lag: 10_000,
            processing_guarantee: ProcessingGuarantee::default(),
            flush_interval: 30_000_000,
            flush_bytes: 32 << 20,
            rocksdb_options: Vec::new(),
            default_isolation_level: IsolationLevel::default(),
        }
    }
}

impl Settings {
    /// Returns when snapshots are taken and how much log is retained.
    pub fn snapshots(&self) -> SnapshotPolicy {
        SnapshotPolicy {
            interval: Duration::from_micros(self.snapshot_interval),
            retain_epochs: self.retain_epochs,
            max_follower_lag: self.max_follower_lag,
        }
    }

    /// Returns when databases are flushed.
    pub fn flushes(&self) -> FlushPolicy {
        FlushPolicy {
            interval: Duration::from_micros(self.flush_interval),
            bytes: self.flush_bytes,
        }
    }

    /// Returns the options of the databases.
    ///
    /// They have no write-ahead log, because the state's log restores what a crash loses.
    pub fn database_options(&self) -> DatabaseOptions {
        DatabaseOptions {
            durability: Durability::Changelog,
            uncommitted_max_bytes: self.uncommitted_max_bytes,
            rocksdb_options: self.rocksdb_options.clone(),
            ..DatabaseOptions::default()
        }
    }
}

/// The epoch of a query that a persistent session belongs to.
#[derive(Debug, Clone)]
pub struct QueryEpoch {
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
    /// Parses a request.
    ///
    /// # Errors
    /// `InvalidValue` names the field that is missing or wrong.
    pub fn parse(json: &[u8]) -> Result<Self> {
        let invalid =
            |what: String| Error::new(ErrorKind::InvalidValue, format!("session request: {what}"));
        let request: Self =
            serde_json::from_slice(json).map_err(|error| invalid(error.to_string()))?;
        let partition = u32::try_from(request.partition.0).ok();
        if partition.is_none_or(|partition| partition >= request.partitions) {
            return Err(invalid(format!(
                "partition {} of {} partitions",
                request.partition, request.partitions
            )));
        }
        Ok(request)
    }

    /// Returns the epoch of the session; `None` for a scratch session.
    ///
    /// # Errors
    /// `InvalidValue` names a missing field. A persistent session that lacks one must not run on
    /// empty state.
    pub fn query_epoch(&self) -> Result<Option<QueryEpoch>> {
        if self.scratch {
            return Ok(None);
        }
        let missing = |what: &str| {
            Error::new(
                ErrorKind::InvalidValue,
                format!("session request: a persistent state needs {what}"),
            )
        };
        Ok(Some(QueryEpoch {
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
    /// The epoch; `None` in a scratch session.
    pub epoch: Option<Epoch>,
    /// The previous epoch, whose state the session reads; `None` if there is none. It is final once
    /// the input has ended.
    pub state_epoch: Option<Epoch>,
    /// The run's number; `None` in a scratch session.
    pub run: Option<RunNumber>,
    /// The partition.
    pub partition: PartitionId,
}

/// The answer to a request whose partition another host owns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MovedTo {
    /// The id of the session's root. The worker derives its key for the owner from it.
    pub root_id: String,
    /// The owner.
    pub owner: Owner,
}

/// The result of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageReport {
    /// The epoch; `None` in a scratch session.
    pub epoch: Option<Epoch>,
    /// The digest of the staged changes and output; `None` in a scratch session.
    pub digest: Option<Digest>,
    /// Whether an earlier session had already staged the epoch. Its results are used; under
    /// at-least-once they may differ from this session's.
    pub adopted: bool,
    /// The number of records of this session's changes. An adopted object that differs may have
    /// another number.
    pub records: u64,
    /// Row counts.
    #[serde(flatten)]
    pub counts: Counts,
}
