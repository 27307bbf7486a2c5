//! All counts of one store.

use crate::metrics::counter::Counter;
use crate::metrics::level::MetricsLevel;
use crate::metrics::operation::{Call, Operation, OperationCounts};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// The counts of a store, shared by its handles.
pub(crate) struct StoreCounts {
    operations: [OperationCounts; Operation::ALL.len()],
    /// Writes that were refused because they are older than the retention.
    pub(crate) dropped: Counter,
    /// Reads as of a moment before the retained history that left out a key.
    pub(crate) expired_reads: Counter,
    /// Segments of time that have expired.
    pub(crate) expired_segments: Counter,
    iterators: Mutex<OpenIterators>,
    /// How long each iterator was open.
    pub(crate) iterator_times: OperationCounts,
}

/// Open iterators in the order in which they were opened.
#[derive(Default)]
struct OpenIterators {
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

    /// Counts a call. The call ends when the result is dropped.
    #[inline]
    pub(crate) fn call(&self, operation: Operation) -> Call<'_> {
        self.operations[operation as usize].begin()
    }

    /// Counts an open iterator until the result is dropped.
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

    /// Returns the counts of an operation.
    pub(crate) fn operation(&self, operation: Operation) -> &OperationCounts {
        &self.operations[operation as usize]
    }

    /// Returns the number of open iterators, and when the oldest was opened.
    pub(crate) fn open_iterators(&self) -> (usize, Option<Instant>) {
        let iterators = self.iterators.lock();
        let oldest = iterators.open.first_key_value();
        (iterators.open.len(), oldest.map(|(_, opened)| *opened))
    }
}

/// An iterator that is open.
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
