//! The store itself: its settings, horizon and counts.

use super::marks::Marks;
use super::seek_hint::SeekHint;
use crate::expiry::retention::first_kept_version;
use crate::metrics::StoreCounts;
use crate::time::Timestamp;
use crate::transaction::{Table, Transaction};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// At most one warning about expired reads in this time (KIP-889 warns at each; a job that reads
/// far back would drown in them).
const WARN_EVERY: Duration = Duration::from_secs(60);

/// A handle to a versioned store of a database; every call says in which transaction.
#[derive(Clone)]
pub struct VersionedStore {
    pub(super) inner: Arc<VersionedInner>,
}

pub(super) struct VersionedInner {
    name: String,
    /// The store's position among those of its database.
    pub(super) number: usize,
    pub(super) versions: Table,
    pub(super) latest: Table,
    history_retention: i64,
    segment_interval: i64,
    pub(super) marks: Marks,
    pub(super) counts: Arc<StoreCounts>,
    pub(super) seek_hint: SeekHint,
    /// When the last warning about an expired read was given.
    warned: Mutex<Option<Instant>>,
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

    /// The store's name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// How far back versions can be asked for, in microseconds.
    pub fn history_retention(&self) -> i64 {
        self.inner.history_retention
    }

    /// The unit of expiry, in microseconds.
    pub fn segment_interval(&self) -> i64 {
        self.inner.segment_interval
    }

    /// Greatest timestamp of an accepted write, all keys together, as the transaction sees it.
    pub fn stream_time(&self, tx: &Transaction) -> Option<Timestamp> {
        tx.stores[self.inner.number].stream_time.map(Timestamp)
    }

    /// Writes that were refused for being older than the history retention, since the database was
    /// opened.
    pub fn dropped_records(&self) -> u64 {
        self.inner.counts.dropped.total()
    }

    /// Reads as of a moment older than the history retention that found nothing, since the database
    /// was opened.
    pub fn expired_reads(&self) -> u64 {
        self.inner.counts.expired_reads.total()
    }

    /// The oldest moment that can be asked for and written, in microseconds.
    pub fn horizon(&self, tx: &Transaction) -> i64 {
        self.first_retained(tx)
            .max(tx.stores[self.inner.number].first_kept.unwrap_or(i64::MIN))
    }

    /// The oldest moment that the store's retention reaches; a retention that was shorter before
    /// may have dropped it.
    fn first_retained(&self, tx: &Transaction) -> i64 {
        tx.stores[self.inner.number]
            .stream_time
            .map_or(i64::MIN, |time| {
                first_kept_version(time, self.inner.history_retention)
            })
    }

    /// Counts a read as of a moment before the horizon that found nothing, and warns now and then.
    pub(super) fn expired_read(&self, tx: &Transaction, at: i64) {
        self.inner.counts.expired_reads.add(1);
        let mut warned = self.inner.warned.lock();
        if warned.is_none_or(|last| last.elapsed() >= WARN_EVERY) {
            *warned = Some(Instant::now());
            let horizon = self.horizon(tx);
            let advice = if self.first_retained(tx) <= at {
                "history_retention was shorter before, which has dropped what lies further back; \
                 to have it again, open the store in a new directory and restore it from its \
                 changelog"
            } else {
                "raise history_retention if it should"
            };
            log::warn!(
                "store {}: a read as of {at} found nothing, since history is kept from {horizon} \
                 on (microseconds): {advice}",
                self.inner.name
            );
        }
    }

    /// Memory that the store's staged records hold, in bytes.
    pub fn uncommitted_bytes(&self, tx: &Transaction) -> usize {
        tx.table_bytes(self.inner.versions)
    }

    pub(crate) fn tables(&self) -> (Table, Table) {
        (self.inner.versions, self.inner.latest)
    }
}
