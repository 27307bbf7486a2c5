//! The records of waiting rows that an epoch changes.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use holdfast_core::Result;

use super::close_limit::CloseLimit;
use super::record::{ChangedRecord, WaitingRow, push_row};
use super::record_runs::RecordRuns;
use crate::codec::byte_list::ByteList;
use crate::memory::budget::Budget;

/// The records that an epoch changes. All keys in memory are in one buffer, and all records in
/// another one.
#[derive(Default)]
pub struct ChangedRecords {
    keys: ByteList,
    places: Vec<RecordPlace>,
    bytes: Vec<u8>,
    /// None if all records stay in memory.
    limit: Option<SpillLimit>,
}

/// How much memory changed records may take, and where they move when they exceed it.
pub struct SpillLimit {
    bytes: usize,
    runs: RecordRuns,
}

impl SpillLimit {
    /// Records above this memory, in bytes, move to files in this folder. `budget` counts the
    /// spills.
    pub fn new(bytes: usize, folder: &Path, budget: Arc<Budget>) -> Self {
        Self {
            bytes,
            runs: RecordRuns::new(folder, budget),
        }
    }
}

/// Where a record is.
struct RecordPlace {
    time: i64,
    key: usize,
    bytes: Range<usize>,
}

impl ChangedRecords {
    /// Limits the memory of the records.
    pub fn limit_memory(&mut self, limit: SpillLimit) {
        self.limit = Some(limit);
    }

    /// Adds a record of these rows. Records of one key should follow each other: the key is then
    /// stored once.
    ///
    /// # Errors
    /// As [`push_row`]; `Io` if the disk is full or fails.
    pub fn push<'a>(
        &mut self,
        key: &[u8],
        time: i64,
        rows: impl IntoIterator<Item = WaitingRow<'a>>,
    ) -> Result<()> {
        if self.keys.is_empty() || self.keys.get(self.keys.len() - 1) != key {
            self.keys.push(key);
        }
        let start = self.bytes.len();
        for row in rows {
            push_row(row, &mut self.bytes)?;
        }
        self.places.push(RecordPlace {
            time,
            key: self.keys.len() - 1,
            bytes: start..self.bytes.len(),
        });
        let limit = self.limit.as_ref();
        if limit.is_some_and(|limit| self.memory_bytes() > limit.bytes) {
            self.spill()?;
        }
        Ok(())
    }

    /// Returns at most how much memory the records take, in bytes. A list that grows may have twice
    /// the memory that it needs.
    fn memory_bytes(&self) -> usize {
        let places = self.places.len() * size_of::<RecordPlace>();
        2 * (self.keys.total_bytes() + self.bytes.len() + places)
    }

    /// Moves the records in memory to disk.
    fn spill(&mut self) -> Result<()> {
        let Self {
            keys,
            places,
            bytes,
            limit,
        } = self;
        let Some(SpillLimit { runs, .. }) = limit else {
            return Ok(());
        };
        places.sort_unstable_by(|a, b| {
            let by_key = || keys.get(a.key).cmp(keys.get(b.key));
            a.time.cmp(&b.time).then_with(by_key)
        });
        runs.push(places.iter().map(|place| ChangedRecord {
            key: keys.get(place.key),
            time: place.time,
            bytes: &bytes[place.bytes.clone()],
        }))?;
        keys.clear();
        places.clear();
        bytes.clear();
        Ok(())
    }

    /// If records have moved to disk, moves the others there, too, and returns all of them.
    ///
    /// # Errors
    /// `Io` if the disk is full or fails.
    pub fn on_disk(&mut self) -> Result<Option<&RecordRuns>> {
        if self.runs().is_some() && !self.places.is_empty() {
            self.spill()?;
        }
        Ok(self.runs())
    }

    /// The records on disk, if there are any.
    fn runs(&self) -> Option<&RecordRuns> {
        let runs = self.limit.as_ref().map(|limit| &limit.runs);
        runs.filter(|runs| !runs.is_empty())
    }

    /// Returns the closed records in memory, in the order of time and key.
    pub fn closed_records(&self, limit: CloseLimit) -> Vec<ChangedRecord<'_>> {
        let records = self.places.iter().map(|place| self.record(place));
        let mut closed: Vec<ChangedRecord<'_>> = records
            .filter(|record| limit.is_closed(record.time))
            .collect();
        closed.sort_unstable_by_key(|record| (record.time, record.key));
        closed
    }

    /// Removes the closed records in memory, and sorts the others by time.
    pub fn retain_open(&mut self, limit: CloseLimit) {
        self.places.retain(|place| !limit.is_closed(place.time));
        self.places.sort_by_key(|place| place.time);
    }

    /// Returns all records in memory.
    pub fn iter(&self) -> impl Iterator<Item = ChangedRecord<'_>> {
        self.places.iter().map(|place| self.record(place))
    }

    fn record(&self, place: &RecordPlace) -> ChangedRecord<'_> {
        ChangedRecord {
            key: self.keys.get(place.key),
            time: place.time,
            bytes: &self.bytes[place.bytes.clone()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_on_disk_counts_as_a_spill() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut changed, budget) = (ChangedRecords::default(), Budget::new(0));
        changed.limit_memory(SpillLimit::new(1_500, folder.path(), Arc::clone(&budget)));
        let row = WaitingRow {
            matched: false,
            payload: &[0; 400],
        };
        // A record takes about 900 bytes.
        for (time, spills) in [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2)] {
            changed.push(b"key", time, [row]).expect("adds");
            assert_eq!(budget.spills(), spills, "after record {time}");
        }
        let runs = changed.on_disk().expect("writes");
        assert!(runs.is_some());
        assert_eq!(budget.spills(), 3, "the last record has followed");
    }
}
