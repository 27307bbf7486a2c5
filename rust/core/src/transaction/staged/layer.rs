//! Staged records of one table: a log, its hash index and its key order. Index and order are made
//! by the first read that needs them.
//!
//! The index of a versioned table leaves out the 8 bytes of time at the key's end, and finds the
//! newest version. All other tables are indexed by the whole key.

#[cfg(test)]
mod tests;

use super::key_index::KeyIndex;
pub(in crate::transaction) use super::key_index::hash;
use super::key_order::{KeyOrder, OrderEntry};
use super::record_log::RecordLog;
use std::ops::Range;
use std::sync::Arc;

pub(in crate::transaction) struct Layer {
    log: RecordLog,
    index: KeyIndex,
    order: KeyOrder,
}

impl Layer {
    pub(in crate::transaction) fn new(family: u32, suffix: usize) -> Self {
        Self {
            log: RecordLog::new(family),
            index: KeyIndex::new(suffix),
            order: KeyOrder::default(),
        }
    }

    /// Joins two layers into a frozen one: the records of `older`, then those of `newer`. Readers
    /// may share `older`.
    ///
    /// The bytes of the records are shared and not copied. The index is made by the first lookup.
    /// The order is made by the first read that needs it, unless both layers have theirs.
    pub(in crate::transaction) fn joined(older: Arc<Self>, newer: Self) -> Self {
        let (mut log, older_order) = match Arc::try_unwrap(older) {
            Ok(older) => (older.log, older.order),
            Err(older) => (older.log.clone(), older.order.clone()),
        };
        let first = log.len() as u32;
        log.append(newer.log);
        let mut index = KeyIndex::new(newer.index.suffix());
        index.freeze(&log);
        Self {
            order: KeyOrder::joined(&older_order, &newer.order, first, &log),
            index,
            log,
        }
    }

    pub(in crate::transaction) fn is_empty(&self) -> bool {
        self.log.is_empty()
    }

    pub(in crate::transaction) fn len(&self) -> usize {
        self.log.len()
    }

    /// How many of the records are deletes.
    pub(in crate::transaction) fn deletes(&self) -> usize {
        self.log.deletes()
    }

    #[inline]
    pub(in crate::transaction) fn push(
        &mut self,
        key: &[&[u8]],
        value: Option<&[&[u8]]>,
        newest: bool,
    ) {
        self.log.push(key, value, newest);
    }

    #[inline]
    pub(in crate::transaction) fn key(&self, n: u32) -> &[u8] {
        self.log.key(n)
    }

    #[inline]
    pub(in crate::transaction) fn value(&self, n: u32) -> Option<&[u8]> {
        self.log.value(n)
    }

    /// Key and value of a record.
    #[inline]
    pub(in crate::transaction) fn row(&self, n: u32) -> (&[u8], Option<&[u8]>) {
        self.log.row(n)
    }

    #[inline]
    pub(in crate::transaction) fn newest(&self, n: u32) -> bool {
        self.log.newest(n)
    }

    #[inline]
    pub(in crate::transaction) fn encoded(&self, n: u32) -> &[u8] {
        self.log.encoded(n)
    }

    /// The most memory that a record takes beside its key and value, in bytes.
    pub(in crate::transaction) const RECORD_BYTES: usize =
        RecordLog::RECORD_BYTES + KeyIndex::BYTES + size_of::<OrderEntry>();

    /// Memory that dropping this layer would free. It grows smoothly with each record, so a caller
    /// with a limit can predict from the last record whether the next one exceeds it. Index and
    /// order are therefore counted from the first record on, whether they exist or not.
    pub(in crate::transaction) fn bytes(&self) -> usize {
        self.log.bytes() + self.log.len() * (KeyIndex::BYTES + size_of::<OrderEntry>())
    }

    /// Brings the index up to date.
    pub(in crate::transaction) fn catch_up(&mut self) {
        self.index.catch_up(&self.log);
    }

    /// Ends the writes to this layer. An index or order that does not exist yet is made by the
    /// first read that needs it. So a reader takes its view under the writer's lock, but sorts
    /// after it has released the lock.
    pub(in crate::transaction) fn freeze(&mut self) {
        self.log.freeze();
        self.order.freeze(&self.log);
        self.index.freeze(&self.log);
    }

    /// Returns the last record of a key; in a versioned table, the record of its newest version.
    ///
    /// The caller has called `catch_up` or `freeze`.
    #[inline]
    pub(in crate::transaction) fn find(&self, part: &[u8]) -> Option<u32> {
        if self.log.is_empty() {
            None
        } else {
            self.find_hashed(hash(part), part)
        }
    }

    /// Like `find`, with the key's hash.
    #[inline]
    pub(in crate::transaction) fn find_hashed(&self, hash: u64, part: &[u8]) -> Option<u32> {
        self.index.find(&self.log, hash, part)
    }

    /// Brings the order up to date, for `at_or_after` and `before`.
    pub(in crate::transaction) fn order(&mut self) {
        self.order.catch_up(&self.log);
    }

    /// Whether the order of all records exists already.
    pub(in crate::transaction) fn is_ordered(&self) -> bool {
        self.order.whole(self.log.len()).is_some()
    }

    /// Makes the order of all records.
    pub(in crate::transaction) fn complete_order(&mut self) {
        self.order.complete(&self.log);
    }

    /// Skips the sort: all records were pushed in ascending key order, each key once.
    pub(in crate::transaction) fn pushed_in_order(&mut self) {
        self.order.set_staged_order(&self.log);
    }

    /// The first record whose key is at least `key`.
    pub(in crate::transaction) fn at_or_after(&self, key: &[u8]) -> Option<u32> {
        self.order.at_or_after(&self.log, key)
    }

    /// The last record whose key is below `key`.
    pub(in crate::transaction) fn before(&self, key: &[u8]) -> Option<u32> {
        self.order.before(&self.log, key)
    }

    /// The key order of a frozen layer.
    #[inline]
    pub(in crate::transaction) fn run(&self) -> &[OrderEntry] {
        self.order.run(&self.log)
    }

    /// Position in the key order of the first key that is at least `key`.
    pub(in crate::transaction) fn run_position(&self, key: &[u8]) -> usize {
        self.order.run_position(&self.log, key)
    }

    /// Reads the records at these positions of the key order, so that the processor caches them:
    /// all cache lines of a short record; the start and the end of a long one.
    pub(in crate::transaction) fn touch(&self, positions: Range<usize>) {
        for entry in &self.run()[positions] {
            let record = self.encoded(entry.record());
            // The bytes are copied: for a reference only the address would be computed.
            std::hint::black_box((
                record.first().copied(),
                record.get(64).copied(),
                record.last().copied(),
            ));
        }
    }

    /// Each key's last record in key order, as a commit needs them. The order is not remembered.
    pub(in crate::transaction) fn commit_order(&self) -> Vec<u32> {
        self.order.commit_order(&self.log)
    }
}
