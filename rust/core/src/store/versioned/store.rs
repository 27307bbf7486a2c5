//! The versioned store (KIP-889, `stores.md` section 5): (key, timestamp) → value or tombstone,
//! with reads as of a moment.
//!
//! Where is …? a late put: `write.rs` · a read as of a moment: `read.rs` · a mixed batch:
//! `batch.rs` · history and scans: `history.rs` · what is dropped when: `expiry/` · bytes:
//! `layout.rs` · why most puts read nothing: `marks.rs`.

mod ahead;
mod backward;
mod batch;
mod history;
mod layout;
mod marks;
mod read;
mod write;

pub use batch::{Applied, Op};
pub use history::VersionScan;

use crate::metrics::StoreCounts;
use crate::time::Timestamp;
use crate::transaction::{Table, Transaction};
use ahead::Ahead;
use marks::Marks;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// At most one warning about expired reads in this time (KIP-889 warns at each; a job that reads
/// far back would drown in them).
const WARN_EVERY: Duration = Duration::from_secs(60);

/// A version that was found: `[timestamp, valid_to)` is when it was in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version<'a> {
    /// The value; a tombstone is never handed out.
    pub value: &'a [u8],
    /// Begin of validity, inclusive.
    pub timestamp: Timestamp,
    /// End of validity, exclusive; `None` for the newest version (and where the caller did not ask
    /// for it).
    pub valid_to: Option<Timestamp>,
}

/// What became of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutResult {
    /// False: older than the history retention; nothing was written.
    pub accepted: bool,
    /// The next greater timestamp known of the key; `None` if the new version is the newest.
    pub valid_to: Option<Timestamp>,
}

/// A version to be replayed, or one that a transaction has staged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRow<'a> {
    /// The user's key.
    pub key: &'a [u8],
    /// `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    /// Begin of validity.
    pub timestamp: Timestamp,
}

/// A handle to a versioned store of a database; every call says in which transaction.
#[derive(Clone)]
pub struct VersionedStore {
    inner: Arc<Inner>,
}

struct Inner {
    name: String,
    /// The store's position among those of its database.
    number: usize,
    versions: Table,
    latest: Table,
    history_retention: i64,
    segment_interval: i64,
    marks: Marks,
    counts: Arc<StoreCounts>,
    ahead: Ahead,
    /// When the last warning about an expired read was given.
    warned: Mutex<Option<Instant>>,
}

/// The oldest moment that can be asked for at a stream time.
pub(crate) fn first_kept(stream_time: i64, history_retention: i64) -> i64 {
    stream_time.saturating_sub(history_retention)
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
            inner: Arc::new(Inner {
                name: name.to_owned(),
                number,
                versions,
                latest,
                history_retention: retention.0,
                segment_interval: retention.1,
                marks: Marks::new(stream_time),
                counts,
                ahead: Ahead::default(),
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
                first_kept(time, self.inner.history_retention)
            })
    }

    /// Counts a read as of a moment before the horizon that found nothing, and warns now and then.
    fn expired_read(&self, tx: &Transaction, at: i64) {
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
