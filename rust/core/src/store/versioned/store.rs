//! The store itself: its settings, horizon and counts.

use super::marks::Marks;
use super::seek_hint::SeekHint;
use crate::expiry::retention::first_retained_version;
use crate::metrics::StoreCounts;
use crate::time::Timestamp;
use crate::transaction::{Table, Transaction};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Instant;

/// A handle to a versioned store of a database. Every call takes the transaction to work in.
#[derive(Clone)]
pub struct VersionedStore {
    pub(super) inner: Arc<VersionedInner>,
}

pub(super) struct VersionedInner {
    name: String,
    /// The store's position among the stores of its database.
    pub(super) number: usize,
    pub(super) versions: Table,
    pub(super) latest: Table,
    history_retention: i64,
    segment_interval: i64,
    pub(super) marks: Marks,
    pub(super) counts: Arc<StoreCounts>,
    pub(super) seek_hint: SeekHint,
    /// The time of the last warning about an expired read.
    pub(super) warned: Mutex<Option<Instant>>,
}

impl VersionedStore {
    pub(crate) fn new(
        name: &str,
        number: usize,
        [versions, latest]: [Table; 2],
        retention: (i64, i64),
        stream_time: Option<i64>,
        counts: Arc<StoreCounts>,
    ) -> Self {
        Self {
            inner: Arc::new(VersionedInner {
                name: name.to_owned(),
                number,
                versions,
                latest,
                history_retention: retention.0,
                segment_interval: retention.1,
                marks: Marks::new(stream_time),
                counts,
                seek_hint: SeekHint::default(),
                warned: Mutex::new(None),
            }),
        }
    }

    /// Returns the store's name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns how far back versions can be read, in microseconds.
    pub fn history_retention(&self) -> i64 {
        self.inner.history_retention
    }

    /// Returns the unit of expiry, in microseconds.
    pub fn segment_interval(&self) -> i64 {
        self.inner.segment_interval
    }

    /// Returns the greatest timestamp of an accepted write over all keys, the writes of this
    /// transaction included.
    pub fn stream_time(&self, tx: &Transaction) -> Option<Timestamp> {
        tx.stores[self.inner.number].stream_time.map(Timestamp)
    }

    /// Returns how many writes were refused since the database was opened, because they were older
    /// than the history retention.
    pub fn dropped_records(&self) -> u64 {
        self.inner.counts.dropped.total()
    }

    /// Returns how many reads were expired since the database was opened: they were as of a moment
    /// older than the history retention, and left out a key that has a newer version.
    pub fn expired_reads(&self) -> u64 {
        self.inner.counts.expired_reads.total()
    }

    /// Returns the oldest moment that can be read and written, in microseconds.
    ///
    /// It is `stream time - history retention`. An open with a longer retention does not lower it.
    pub fn horizon(&self, tx: &Transaction) -> i64 {
        self.first_retained(tx).max(
            tx.stores[self.inner.number]
                .first_retained
                .unwrap_or(i64::MIN),
        )
    }

    /// The oldest moment within the store's retention. If the retention was once shorter, the
    /// history at this moment may have been dropped.
    pub(super) fn first_retained(&self, tx: &Transaction) -> i64 {
        tx.stores[self.inner.number]
            .stream_time
            .map_or(i64::MIN, |time| {
                first_retained_version(time, self.inner.history_retention)
            })
    }

    /// Memory that the store's staged records hold, in bytes.
    pub fn uncommitted_bytes(&self, tx: &Transaction) -> usize {
        tx.table_bytes(self.inner.versions)
    }

    pub(crate) fn tables(&self) -> (Table, Table) {
        (self.inner.versions, self.inner.latest)
    }
}
