//! All counts of one store.

use super::operation::Call;
use super::{Count, Counter, MetricsLevel, Operation, OperationCounts, Sheet};
use crate::store_spec::StoreKind;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// What a store counts; its handles share it.
pub(crate) struct StoreCounts {
    operations: [OperationCounts; Operation::ALL.len()],
    /// Writes refused for being older than the retention.
    pub(crate) dropped: Counter,
    /// Reads older than the history retention that found nothing.
    pub(crate) expired_reads: Counter,
    /// Segments of time that nobody can ask for any more.
    pub(crate) expired_segments: Counter,
    iterators: Mutex<Iterators>,
    iterator_times: OperationCounts,
}

/// Open iterators by the order of their opening.
#[derive(Default)]
struct Iterators {
    next: u64,
    open: BTreeMap<u64, Instant>,
}

impl StoreCounts {
    pub(crate) fn new(level: MetricsLevel) -> Arc<Self> {
        let all = Operation::ALL.map(|operation| OperationCounts::at_level(operation, level));
        Arc::new(Self {
            operations: all,
            dropped: Counter::default(),
            expired_reads: Counter::default(),
            expired_segments: Counter::default(),
            iterators: Mutex::default(),
            iterator_times: OperationCounts::new(true),
        })
    }

    /// Counts a call, which ends when the result is dropped.
    #[inline]
    pub(crate) fn call(&self, operation: Operation) -> Call<'_> {
        self.operations[operation as usize].begin()
    }

    /// Counts an iterator, which is closed when the result is dropped.
    pub(crate) fn iterator(self: &Arc<Self>) -> OpenIterator {
        let mut iterators = self.iterators.lock();
        let id = iterators.next;
        iterators.next += 1;
        iterators.open.insert(id, Instant::now());
        OpenIterator {
            store: Arc::clone(self),
            id,
        }
    }

    /// The figures that a store of this kind has; `dropped` is the look that the database's sum was
    /// taken from.
    pub(crate) fn push_to(
        &self,
        sheet: &mut Sheet,
        kind: &StoreKind,
        dropped: Count,
        now: Instant,
    ) {
        for operation in operations(kind) {
            self.operations[*operation as usize].push_operation(sheet, *operation, now);
        }
        if !matches!(kind, StoreKind::KeyValue | StoreKind::TimestampedKeyValue) {
            sheet.push_count(
                "dropped-records",
                dropped,
                "records",
                "Writes refused for being older than the retention",
            );
            sheet.push_count(
                "expired-segments",
                self.expired_segments.look(now),
                "segments",
                "Segments of time that have expired",
            );
        }
        match kind {
            StoreKind::KeyValue | StoreKind::TimestampedKeyValue => {}
            StoreKind::Versioned { .. } => {
                let reads =
                    "Reads as of a moment older than the history retention that found nothing";
                sheet.push_count(
                    "expired-reads",
                    self.expired_reads.look(now),
                    "calls",
                    reads,
                );
            }
            StoreKind::Window { .. } | StoreKind::Session { .. } => {
                sheet.push_count(
                    "expired-window-record-drop",
                    dropped,
                    "records",
                    "The same as dropped-records, under its older name",
                );
            }
        }
        let iterators = self.iterators.lock();
        sheet.push(
            "num-open-iterators",
            iterators.open.len() as u64,
            "iterators",
            "Iterators and Arrow readers that are open",
        );
        let oldest = iterators
            .open
            .first_key_value()
            .map_or(0, |(_, opened)| epoch_millis(*opened));
        drop(iterators);
        sheet.push(
            "oldest-iterator-open-since-ms",
            oldest,
            "epoch milliseconds",
            "When the oldest open iterator was opened; 0: none is open",
        );
        let times = self.iterator_times.look(now);
        sheet.push(
            "iterator-duration-avg",
            times.mean,
            "seconds",
            "Mean time from the opening of an iterator to its end",
        );
        sheet.push(
            "iterator-duration-max",
            times.longest,
            "seconds",
            "Longest time from the opening of an iterator to its end",
        );
    }
}

fn epoch_millis(moment: Instant) -> u64 {
    let then = SystemTime::now()
        .checked_sub(moment.elapsed())
        .and_then(|then| then.duration_since(UNIX_EPOCH).ok());
    then.map_or(0, |since| since.as_millis() as u64)
}

/// The operations that stores of a kind have.
fn operations(kind: &StoreKind) -> &'static [Operation] {
    use Operation::*;
    match kind {
        StoreKind::KeyValue | StoreKind::TimestampedKeyValue => &[
            Put,
            PutIfAbsent,
            PutAll,
            Delete,
            DeleteRange,
            Get,
            Range,
            All,
            PrefixScan,
            PutBatch,
            DeleteBatch,
            GetBatch,
            Restore,
        ],
        StoreKind::Versioned { .. } => &[
            Put,
            Delete,
            Get,
            Versions,
            VersionsRange,
            Scan,
            PutBatch,
            GetBatch,
            ApplyBatch,
            Restore,
        ],
        StoreKind::Window { .. } => &[Put, Fetch, All, PutBatch, FetchBatch, Restore],
        StoreKind::Session { .. } => &[Put, Remove, Fetch, PutBatch, FetchBatch, Restore],
    }
}

/// An iterator that has not been closed yet.
pub(crate) struct OpenIterator {
    store: Arc<StoreCounts>,
    id: u64,
}

impl Drop for OpenIterator {
    fn drop(&mut self) {
        let opened = self.store.iterators.lock().open.remove(&self.id);
        if let Some(opened) = opened {
            self.store.iterator_times.add(opened.elapsed());
        }
    }
}
