//! RocksDB's iterator, with errors that a later seek does not clear.

use crate::sync::Mutex;
use rust_rocksdb::{DB, DBRawIteratorWithThreadMode};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The crate's iterator, used only while its database is held open.
///
/// A read error ends the crate's iterator, and its next seek clears the error, so a result could
/// lack rows. This iterator stores the first error until [`RawIterator::status`] is called.
pub(crate) struct RawIterator {
    rows: DBRawIteratorWithThreadMode<'static, DB>,
    failed: Option<rust_rocksdb::Error>,
}

/// The slots of a database's open iterators.
#[derive(Default)]
pub(super) struct IteratorSlots {
    pub(super) slots: Mutex<HashMap<u64, Arc<IteratorSlot>>>,
    next: AtomicU64,
}

impl IteratorSlots {
    /// Adds a slot and returns its id.
    pub(super) fn add(&self, slot: &Arc<IteratorSlot>) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.slots.lock().insert(id, Arc::clone(slot));
        id
    }
}

/// Holds an iterator until the cursor is dropped or the database is closed.
pub(super) type IteratorSlot = Mutex<Option<RawIterator>>;

impl RawIterator {
    pub(super) fn new(rows: DBRawIteratorWithThreadMode<'static, DB>) -> Self {
        Self { rows, failed: None }
    }

    /// Stores the error of the last move; called before every seek.
    #[inline]
    fn keep_error(&mut self) {
        if !self.rows.valid() && self.failed.is_none() {
            self.failed = self.rows.status().err();
        }
    }

    /// Returns the first error since the last call.
    pub(super) fn status(&mut self) -> std::result::Result<(), rust_rocksdb::Error> {
        self.failed.take().map_or_else(|| self.rows.status(), Err)
    }

    pub(crate) fn seek_to_first(&mut self) {
        self.keep_error();
        self.rows.seek_to_first()
    }

    pub(crate) fn seek_to_last(&mut self) {
        self.keep_error();
        self.rows.seek_to_last()
    }

    #[inline]
    pub(crate) fn seek(&mut self, key: &[u8]) {
        self.keep_error();
        self.rows.seek(key)
    }

    #[inline]
    pub(crate) fn seek_for_prev(&mut self, key: &[u8]) {
        self.keep_error();
        self.rows.seek_for_prev(key)
    }

    #[inline]
    pub(crate) fn next(&mut self) {
        self.rows.next()
    }

    #[inline]
    pub(crate) fn prev(&mut self) {
        self.rows.prev()
    }

    #[inline]
    pub(crate) fn valid(&self) -> bool {
        self.rows.valid()
    }

    #[inline]
    pub(crate) fn key(&self) -> Option<&[u8]> {
        self.rows.key()
    }

    #[inline]
    pub(crate) fn value(&self) -> Option<&[u8]> {
        self.rows.value()
    }

    #[inline]
    pub(crate) fn item(&self) -> Option<(&[u8], &[u8])> {
        self.rows.item()
    }
}
