//! Reads as of a moment before the history: counted, and warned about.

use super::store::VersionedStore;
use crate::transaction::Transaction;
use std::time::{Duration, Instant};

/// The time between two warnings about expired reads. KIP-889 warns at each, which would flood the
/// log of a job that reads far back.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// A read as of a moment before the history. It is counted if it leaves out a key that has a newer
/// version: an older version may have been valid at that moment.
pub(super) struct ExpiredRead {
    store: VersionedStore,
    at: i64,
    /// The oldest moment that can be read.
    horizon: i64,
    /// The oldest moment within the retention; earlier than `horizon` only if the retention was
    /// once shorter.
    first_retained: i64,
}

impl ExpiredRead {
    pub(super) fn new(store: &VersionedStore, tx: &Transaction, at: i64) -> Self {
        Self {
            at,
            horizon: store.horizon(tx),
            first_retained: store.first_retained(tx),
            store: store.clone(),
        }
    }

    /// Counts a read once, for the first key whose newest version began after its moment.
    pub(super) fn count_if_left_out(read: &mut Option<Self>, newest_begin: i64) {
        if let Some(read) = read.take_if(|read| newest_begin > read.at) {
            read.count();
        }
    }

    /// Counts the read, and warns at most once per `WARN_EVERY`.
    pub(super) fn count(self) {
        let Self {
            store,
            at,
            horizon,
            first_retained,
        } = self;
        store.inner.counts.expired_reads.add(1);
        let is_due = {
            let mut warned = store.inner.warned.lock();
            let is_due = warned.is_none_or(|last| last.elapsed() >= WARN_EVERY);
            if is_due {
                *warned = Some(Instant::now());
            }
            is_due
        };
        if is_due {
            let advice = if first_retained <= at {
                "history_retention was shorter before, and older history was dropped; to get it \
                 back, open the store in a new directory and restore it from its changelog"
            } else {
                "raise history_retention to keep it longer"
            };
            log::warn!(
                "store {}: a read as of {at} left out keys that changed later, since history is \
                 retained from {horizon} on (microseconds): {advice}",
                store.name()
            );
        }
    }
}
