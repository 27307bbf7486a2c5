//! The records of waiting rows that an epoch changes.

use std::ops::Range;

use holdfast_core::Result;

use super::close_limit::CloseLimit;
use super::record::{WaitingRow, push_row};
use crate::codec::byte_list::ByteList;

/// The records that an epoch changes. All keys are in one buffer, and all records in another one.
#[derive(Default)]
pub struct ChangedRecords {
    keys: ByteList,
    places: Vec<RecordPlace>,
    bytes: Vec<u8>,
}

/// Where a record is.
struct RecordPlace {
    time: i64,
    key: usize,
    bytes: Range<usize>,
}

/// A record with its key and its time.
pub struct ChangedRecord<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The time.
    pub time: i64,
    /// The record's rows (`record.rs`).
    pub bytes: &'a [u8],
}

impl ChangedRecords {
    /// Adds a record of these rows. Records of one key should follow each other: the key is then
    /// stored once.
    ///
    /// # Errors
    /// As [`push_row`].
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
        Ok(())
    }

    /// Returns the closed records, in the order of time and key.
    pub fn closed(&self, limit: CloseLimit) -> Vec<ChangedRecord<'_>> {
        let records = self.places.iter().map(|place| self.record(place));
        let mut closed: Vec<ChangedRecord<'_>> = records
            .filter(|record| limit.is_closed(record.time))
            .collect();
        closed.sort_unstable_by_key(|record| (record.time, record.key));
        closed
    }

    /// Removes the closed records, and sorts the others by time.
    pub fn retain_open(&mut self, limit: CloseLimit) {
        self.places.retain(|place| !limit.is_closed(place.time));
        self.places.sort_by_key(|place| place.time);
    }

    /// Returns all records.
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
