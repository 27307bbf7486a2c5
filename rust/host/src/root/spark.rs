//! Spark's checkpoint beside the state: read, never written.

use bytes::Bytes;
use holdfast_core::{Error, ErrorKind, Result};
use serde::Deserialize;

use super::{Root, names};
use crate::protocol::{Epoch, RunNumber, Violation};

#[derive(Deserialize)]
struct Metadata {
    id: String,
}

/// What an epoch's offsets begin with.
#[derive(Deserialize)]
struct Offsets {
    #[serde(rename = "batchTimestampMs")]
    batch_timestamp: i64,
}

/// What Spark's logs say of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SparkLogs {
    /// Its offsets are there: it may be computed.
    pub has_offsets: bool,
    /// It is committed.
    pub committed: bool,
    /// The epoch before is; true for epoch 0, which has none.
    pub previous_committed: bool,
}

impl Root {
    /// What Spark's logs say of an epoch, asked for at once.
    ///
    /// # Errors
    /// `Io` for what the disk refuses.
    pub fn spark_logs(&self, epoch: Epoch) -> Result<SparkLogs> {
        let names: Vec<String> = [offsets(epoch), commit(epoch)]
            .into_iter()
            .chain(epoch.previous().map(commit))
            .collect();
        let found = self.store.exist(&names)?;
        let is_there = |n: usize| found.get(n).copied().unwrap_or(true);
        Ok(SparkLogs {
            has_offsets: is_there(0),
            committed: is_there(1),
            previous_committed: is_there(2),
        })
    }

    /// Whether Spark's commit log holds an epoch.
    ///
    /// # Errors
    /// `Io` for what the disk refuses.
    pub fn spark_committed(&self, epoch: Epoch) -> Result<bool> {
        self.store.exists(&commit(epoch))
    }

    /// Spark's offsets of an epoch (with the batch's timestamp), as they are in its log.
    ///
    /// # Errors
    /// `Io` for what the disk refuses.
    pub fn spark_offsets(&self, epoch: Epoch) -> Result<Option<Bytes>> {
        self.store.get(&offsets(epoch))
    }

    /// The batch timestamp of an epoch in Spark's offset log, in microseconds: the only wall clock
    /// that may change a result, since a replay finds the same.
    ///
    /// # Errors
    /// `Restore` if the epoch's offsets are missing, or have none.
    pub fn batch_time(&self, epoch: Epoch) -> Result<i64> {
        let offsets = self.spark_offsets(epoch)?.unwrap_or_default();
        // A line with the version, then one with the metadata, then one for each source.
        let metadata = offsets
            .split(|byte| *byte == b'\n')
            .nth(1)
            .unwrap_or_default();
        let Offsets { batch_timestamp } = serde_json::from_slice(metadata).map_err(|error| {
            let place = self.store.place(&self::offsets(epoch));
            let text = format!(
                "Spark's checkpoint: {} has no batch timestamp, which max_ahead goes by \
                 ({error}): restore it from a backup",
                place.display()
            );
            Error::new(ErrorKind::Restore, text)
        })?;
        Ok(batch_timestamp.saturating_mul(1_000))
    }

    /// The id of the query whose checkpoint lies in the root.
    ///
    /// # Errors
    /// `Restore` if Spark's metadata cannot be read.
    pub fn spark_query_id(&self) -> Result<Option<String>> {
        let Some(bytes) = self.store.get(names::SPARK_METADATA)? else {
            return Ok(None);
        };
        let metadata: Metadata = serde_json::from_slice(&bytes).map_err(|error| {
            let place = self.store.place(names::SPARK_METADATA);
            let text = format!(
                "Spark's checkpoint: {} cannot be read ({error}): restore it from a backup",
                place.display()
            );
            Error::new(ErrorKind::Restore, text)
        })?;
        Ok(Some(metadata.id))
    }

    /// Checks that the checkpoint beside the state is this query's.
    ///
    /// # Errors
    /// `StateMismatch` for another query's, and for none.
    pub fn check_spark(&self, query_id: &str, epoch: Epoch) -> Result<()> {
        match self.spark_query_id()? {
            Some(id) if id == query_id => Ok(()),
            None if !self.store.exists(&offsets(epoch))? => {
                Err(self.broken(Violation::NoOffsets { epoch }))
            }
            found => Err(self.broken(Violation::OtherQuery {
                expected: query_id.to_owned(),
                found,
            })),
        }
    }

    /// The newest epoch in Spark's commit log.
    ///
    /// # Errors
    /// `Io` for what the disk refuses.
    pub fn latest_spark_commit(&self) -> Result<Option<Epoch>> {
        let files = self.store.list(names::SPARK_COMMITS)?;
        Ok(files
            .iter()
            .filter_map(|file| file.parse().ok().map(Epoch))
            .max())
    }

    /// Makes Spark's offsets of an epoch and its commit of the one before durable, which Spark
    /// itself does not: before a stage is acknowledged or an epoch applied. Done once for a run's
    /// epoch, whoever asks first.
    ///
    /// # Errors
    /// `Io` if one of the files is missing or cannot be synced.
    pub fn fsync_spark(&self, run: RunNumber, epoch: Epoch) -> Result<()> {
        let mut synced = self.synced.lock();
        if *synced == Some((run, epoch)) {
            return Ok(());
        }
        self.store.sync(&offsets(epoch))?;
        if let Some(previous) = epoch.previous() {
            self.store.sync(&commit(previous))?;
        }
        *synced = Some((run, epoch));
        Ok(())
    }
}

fn commit(epoch: Epoch) -> String {
    format!("{}/{epoch}", names::SPARK_COMMITS)
}

fn offsets(epoch: Epoch) -> String {
    format!("{}/{epoch}", names::SPARK_OFFSETS)
}
