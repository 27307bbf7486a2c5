//! `query/`: Spark's checkpoint beside the state. Holdfast reads it, and puts one mark there
//! (`identity.rs`). Only `holdfast rewind` moves parts of it away.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use holdfast_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use serde::Deserialize;

use super::names;
use super::objects::Objects;
use crate::protocol::{self, Digest, Epoch, Heartbeats, RunNumber, Violation};

/// The number of newest micro-batches whose pauses are compared.
const PAUSES_OF: usize = 5;

/// `query/metadata`.
#[derive(Deserialize)]
struct QueryMetadata {
    id: String,
}

/// The second line of an epoch's offsets.
#[derive(Deserialize)]
struct EpochOffsets {
    #[serde(rename = "batchTimestampMs")]
    batch_timestamp: i64,
}

/// An epoch's file of Spark's offset log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetsFile {
    /// The digest of the file.
    pub digest: Digest,
    /// The batch's timestamp in epoch milliseconds; none if the file has none.
    pub batch_timestamp: Option<i64>,
    /// The query's heartbeats; none if it has none.
    pub heartbeats: Option<Heartbeats>,
    /// The digest of the other sources' offsets.
    pub sources: Digest,
}

impl OffsetsFile {
    /// Parses the file's lines: the version, the metadata, then one for each source.
    fn parse(bytes: &[u8]) -> Self {
        let metadata = bytes.split(|byte| *byte == b'\n').nth(1);
        let parsed = metadata.and_then(|line| serde_json::from_slice::<EpochOffsets>(line).ok());
        Self {
            digest: Digest::of(bytes),
            batch_timestamp: parsed.map(|offsets| offsets.batch_timestamp),
            heartbeats: Heartbeats::of_offsets(bytes),
            sources: protocol::sources_digest(bytes),
        }
    }
}

/// What Spark's logs hold of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SparkLogs {
    /// The epoch's file of the offset log. If there is none, the epoch must not be computed.
    pub offsets: Option<OffsetsFile>,
    /// The commit log holds the epoch.
    pub committed: bool,
    /// The commit log holds the epoch before; true for epoch 0.
    pub previous_committed: bool,
}

/// Spark's checkpoint.
#[derive(Debug)]
pub struct SparkCheckpoint {
    objects: Arc<Objects>,
    synced: Mutex<Synced>,
}

/// The files of Spark that were made durable.
#[derive(Debug, Default)]
struct Synced {
    /// The last run and epoch whose offsets were made durable.
    of: Option<(RunNumber, Epoch)>,
    /// The files of the sources' logs that are durable.
    sources: HashSet<String>,
}

impl SparkCheckpoint {
    /// The checkpoint of a root.
    pub(super) fn new(objects: Arc<Objects>) -> Self {
        Self {
            objects,
            synced: Mutex::default(),
        }
    }

    /// Reads what Spark's logs hold of an epoch; all requests are sent at once.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn logs(&self, epoch: Epoch) -> Result<SparkLogs> {
        let commits: Vec<String> = [commit_name(epoch)]
            .into_iter()
            .chain(epoch.previous().map(commit_name))
            .collect();
        let (offsets, found) = self.objects.get_and_exist(&offsets_name(epoch), &commits)?;
        let exists = |n: usize| found.get(n).copied().unwrap_or(true);
        Ok(SparkLogs {
            offsets: offsets.map(|bytes| OffsetsFile::parse(&bytes)),
            committed: exists(0),
            previous_committed: exists(1),
        })
    }

    /// Returns whether the commit log holds an epoch.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn is_committed(&self, epoch: Epoch) -> Result<bool> {
        self.objects.exists(&commit_name(epoch))
    }

    /// Reads an epoch's file of the offset log; none if it does not exist.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn offsets(&self, epoch: Epoch) -> Result<Option<OffsetsFile>> {
        let bytes = self.objects.get(&offsets_name(epoch))?;
        Ok(bytes.map(|bytes| OffsetsFile::parse(&bytes)))
    }

    /// Returns the batch time of an epoch in microseconds, from its file of the offset log.
    ///
    /// No other wall-clock time may change a result: only this one is the same in a replay.
    ///
    /// # Errors
    /// `Restore` if the file has no timestamp.
    pub fn batch_time(&self, epoch: Epoch, offsets: OffsetsFile) -> Result<i64> {
        let timestamp = offsets.batch_timestamp.ok_or_else(|| {
            let place = self.objects.place(&offsets_name(epoch));
            let text = format!(
                "Spark's checkpoint: {} has no batch timestamp, which max_ahead and heartbeats \
                 need: restore it from a backup",
                place.display()
            );
            Error::new(ErrorKind::Restore, text)
        })?;
        Ok(timestamp.saturating_mul(1_000))
    }

    /// Returns the id of the checkpoint's query; none if there is no checkpoint.
    ///
    /// # Errors
    /// `Restore` if Spark's metadata cannot be read.
    pub fn query_id(&self) -> Result<Option<String>> {
        let Some(bytes) = self.objects.get(names::SPARK_METADATA)? else {
            return Ok(None);
        };
        let metadata: QueryMetadata = serde_json::from_slice(&bytes).map_err(|error| {
            let place = self.objects.place(names::SPARK_METADATA);
            let text = format!(
                "Spark's checkpoint: {} cannot be read ({error}): restore it from a backup",
                place.display()
            );
            Error::new(ErrorKind::Restore, text)
        })?;
        Ok(Some(metadata.id))
    }

    /// Checks that the checkpoint belongs to this query.
    ///
    /// # Errors
    /// `StateMismatch` for the checkpoint of another query, and if there is none; `Restore` if
    /// Spark's metadata cannot be read.
    pub fn check(&self, query_id: &str, epoch: Epoch) -> Result<()> {
        match self.query_id()? {
            Some(id) if id == query_id => Ok(()),
            None if !self.objects.exists(&offsets_name(epoch))? => {
                Err(self.objects.violation(Violation::NoOffsets { epoch }))
            }
            found => Err(self.objects.violation(Violation::OtherQuery {
                expected: query_id.to_owned(),
                found,
            })),
        }
    }

    /// Returns the newest epoch in the commit log.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn latest_commit(&self) -> Result<Option<Epoch>> {
        let files = self.objects.list(names::SPARK_COMMITS)?;
        Ok(files
            .iter()
            .filter_map(|file| file.parse().ok().map(Epoch))
            .max())
    }

    /// Makes the file with the query's id durable. Call this before the root becomes the query's.
    ///
    /// Spark does not sync the file. If the file is lost, Spark starts another query.
    ///
    /// # Errors
    /// `Io` if the file cannot be synced.
    pub fn sync_metadata(&self) -> Result<()> {
        self.sync_if_any(names::SPARK_METADATA)
    }

    /// Makes the offsets of an epoch durable, and the sources' own logs, once for each run and
    /// epoch. Also the offsets and the commit of the epoch before, which Spark needs at its start:
    /// if no operator ran in that epoch, they may not be durable yet.
    ///
    /// Spark does not sync these files. Call this before a stage is acknowledged. The offsets of a
    /// file source only name a file of the source's log, which has the paths of the input. If that
    /// file is lost, the source reads the input again, in a later epoch.
    ///
    /// # Errors
    /// `Io` if a file is missing or cannot be synced.
    pub fn sync_offsets(&self, run: RunNumber, epoch: Epoch) -> Result<()> {
        let mut synced = self.synced.lock();
        if synced.of == Some((run, epoch)) {
            return Ok(());
        }
        if self.objects.is_local() {
            synced.sources = self.sync_sources(&synced.sources)?;
        }
        if let Some(before) = epoch.previous() {
            self.sync_if_any(&offsets_name(before))?;
            self.sync_commit(before)?;
        }
        self.objects.sync(&offsets_name(epoch))?;
        synced.of = Some((run, epoch));
        Ok(())
    }

    /// Makes the offsets of an epoch durable in which no operator ran. Call it before the epoch's
    /// decision is recorded, which has the digest of the offsets.
    ///
    /// A file that Spark has removed since, because it is old, is not needed.
    ///
    /// # Errors
    /// `Io` if the file cannot be synced.
    pub fn sync_skipped_offsets(&self, epoch: Epoch) -> Result<()> {
        self.sync_if_any(&offsets_name(epoch))
    }

    /// Makes the sources' own logs durable. Call it before epochs are recorded as skipped.
    ///
    /// # Errors
    /// `Io` if a file cannot be synced.
    pub fn sync_source_logs(&self) -> Result<()> {
        if self.objects.is_local() {
            let mut synced = self.synced.lock();
            synced.sources = self.sync_sources(&synced.sources)?;
        }
        Ok(())
    }

    /// Makes the files of the sources' logs durable, except those that already are. Returns the
    /// names of all of them.
    fn sync_sources(&self, durable: &HashSet<String>) -> Result<HashSet<String>> {
        let mut files = HashSet::new();
        for source in self.objects.folders(names::SPARK_SOURCES)? {
            let folder = format!("{}/{source}", names::SPARK_SOURCES);
            for file in self.objects.list(&folder)? {
                let name = format!("{folder}/{file}");
                // Spark makes a file under a hidden name first.
                if file.starts_with('.') {
                    continue;
                }
                if !durable.contains(&name) {
                    match self.objects.sync(&name) {
                        // Spark has removed the file since, because it is old.
                        Err(_) if !self.objects.exists(&name)? => continue,
                        synced => synced?,
                    }
                }
                files.insert(name);
            }
        }
        Ok(files)
    }

    /// Makes the commit of an epoch durable. Call it before the epoch's decision is recorded.
    ///
    /// A commit that Spark has removed since, because it is old, is not needed.
    ///
    /// # Errors
    /// `Io` if the file cannot be synced.
    pub fn sync_commit(&self, epoch: Epoch) -> Result<()> {
        self.sync_if_any(&commit_name(epoch))
    }

    fn sync_if_any(&self, name: &str) -> Result<()> {
        if !self.objects.is_local() || !self.objects.exists(name)? {
            return Ok(());
        }
        match self.objects.sync(name) {
            // Spark has removed the file since.
            Err(_) if !self.objects.exists(name)? => Ok(()),
            synced => synced,
        }
    }

    /// Returns the longest pause between the last micro-batches that Spark has committed; zero if
    /// there are fewer than two, or their offsets have no timestamps.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn longest_pause(&self) -> Result<Duration> {
        let files = self.objects.list(names::SPARK_COMMITS)?;
        let mut epochs: Vec<i64> = files.iter().filter_map(|file| file.parse().ok()).collect();
        epochs.sort_unstable_by_key(|epoch| std::cmp::Reverse(*epoch));
        let mut times = Vec::new();
        for epoch in epochs.into_iter().take(PAUSES_OF) {
            times.extend(
                self.offsets(Epoch(epoch))?
                    .and_then(|file| file.batch_timestamp),
            );
        }
        let pauses = times
            .windows(2)
            .map(|two| two[0].saturating_sub(two[1]))
            .max();
        Ok(Duration::from_millis(
            pauses.unwrap_or(0).max(0).unsigned_abs(),
        ))
    }

    /// Returns the objects of the commit log from `first` on, newest first.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn commits_since(&self, first: Epoch) -> Result<Vec<String>> {
        self.numbered(names::SPARK_COMMITS, first)
    }

    /// Returns the objects of the offset log from `first` on, newest first.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn offsets_since(&self, first: Epoch) -> Result<Vec<String>> {
        self.numbered(names::SPARK_OFFSETS, first)
    }

    /// Lists a log's objects from `first` on, newest first.
    ///
    /// Spark writes a checksum beside each file, but only on a local disk. It is listed before its
    /// file: if a removal is interrupted between them, Spark reads the file without a checksum. If
    /// only the checksum were left, Spark would refuse its next file of that number.
    fn numbered(&self, folder: &str, first: Epoch) -> Result<Vec<String>> {
        let files = self.objects.list(folder)?;
        let mut numbered: Vec<(Epoch, bool, &String)> = files
            .iter()
            .filter_map(|file| {
                let (checked, is_checksum) = checked_file(file);
                Some((Epoch(checked.parse().ok()?), is_checksum, file))
            })
            .filter(|(number, ..)| *number >= first)
            .collect();
        numbered.sort_unstable_by_key(|(number, is_checksum, _)| {
            std::cmp::Reverse((*number, *is_checksum))
        });
        Ok(numbered
            .iter()
            .map(|(.., file)| format!("{folder}/{file}"))
            .collect())
    }
}

/// The name of the file that a checksum of Spark's is of, and true; for other files their own name.
pub fn checked_file(file: &str) -> (&str, bool) {
    let checked = file
        .strip_prefix('.')
        .and_then(|file| file.strip_suffix(".crc"));
    (checked.unwrap_or(file), checked.is_some())
}

fn commit_name(epoch: Epoch) -> String {
    format!("{}/{epoch}", names::SPARK_COMMITS)
}

fn offsets_name(epoch: Epoch) -> String {
    format!("{}/{epoch}", names::SPARK_OFFSETS)
}
