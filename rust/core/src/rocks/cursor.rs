//! A position in a family, in key order.

use super::failure::failure;
use super::family::Family;
use super::snapshot::Snapshot;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::{self, Mutex};
use crate::table::{Bounds, FamilyKind};
use rust_rocksdb::{AsColumnFamilyRef, DB, DBRawIteratorWithThreadMode, ReadOptions};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The crate's iterator, seen only while its database is held open. An error of the disk ends it,
/// and the crate's forgets that at its next seek: rows would be missing from an answer. This one
/// remembers the error until it is asked for.
pub(crate) struct RawIterator {
    rows: DBRawIteratorWithThreadMode<'static, DB>,
    /// Sought since it was last asked.
    sought: bool,
    failed: Option<rust_rocksdb::Error>,
}

impl RawIterator {
    fn new(rows: DBRawIteratorWithThreadMode<'static, DB>) -> Self {
        Self {
            rows,
            sought: false,
            failed: None,
        }
    }

    /// To be called before a seek.
    #[inline]
    fn remember(&mut self) {
        if std::mem::replace(&mut self.sought, true) && !self.rows.valid() && self.failed.is_none()
        {
            self.failed = self.rows.status().err();
        }
    }

    /// The first error since it was last asked.
    fn status(&mut self) -> std::result::Result<(), rust_rocksdb::Error> {
        self.sought = false;
        self.failed.take().map_or_else(|| self.rows.status(), Err)
    }

    pub(crate) fn seek_to_first(&mut self) {
        self.remember();
        self.rows.seek_to_first()
    }

    pub(crate) fn seek_to_last(&mut self) {
        self.remember();
        self.rows.seek_to_last()
    }

    #[inline]
    pub(crate) fn seek(&mut self, key: &[u8]) {
        self.remember();
        self.rows.seek(key)
    }

    #[inline]
    pub(crate) fn seek_for_prev(&mut self, key: &[u8]) {
        self.remember();
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

/// Where an iterator lives, so that closing the database can take it away.
pub(super) type Slot = Mutex<Option<RawIterator>>;

/// An iterator over a family as of a snapshot; it may be kept and handed on, and ends with its
/// database.
pub struct Cursor {
    id: u64,
    slot: Arc<Slot>,
    snapshot: Arc<Snapshot>,
}

impl Cursor {
    /// A cursor that stands nowhere yet.
    pub fn new(
        snapshot: &Arc<Snapshot>,
        family: Family,
        kind: FamilyKind,
        bounds: &Bounds,
    ) -> Result<Self> {
        let rocks = snapshot.rocks();
        let guard = rocks.guard()?;
        let mut options = ReadOptions::default();
        snapshot.pin(&mut options);
        if let Some(lower) = &bounds.lower {
            options.set_iterate_lower_bound(lower.clone());
        }
        if let Some(upper) = &bounds.upper {
            options.set_iterate_upper_bound(upper.clone());
        }
        if kind == FamilyKind::Versions {
            options.set_prefix_same_as_start(bounds.within_key);
            options.set_total_order_seek(!bounds.within_key);
        }
        let db: &DB = rocks.opened(&guard)?;
        // SAFETY: the iterator is used only under the guard of an open database, and destroyed by
        // `close` before the database.
        let db: &'static DB = unsafe { &*std::ptr::from_ref(db) };
        debug_assert!(!family.handle.inner().is_null());
        let slot = Arc::new(Mutex::new(Some(RawIterator::new(
            db.raw_iterator_cf_opt(&family.handle, options),
        ))));
        let id = rocks.next_slot.fetch_add(1, Ordering::Relaxed);
        rocks.slots.lock().insert(id, Arc::clone(&slot));
        drop(guard);
        Ok(Self {
            id,
            slot,
            snapshot: Arc::clone(snapshot),
        })
    }

    /// Works on the iterator, held open for the length of the call.
    ///
    /// # Errors
    /// Whatever the disk refused in any of its moves; what it showed is then not all that is there.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut RawIterator) -> R) -> Result<R> {
        let rocks = self.snapshot.rocks();
        let _guard = rocks.guard()?;
        let mut slot = self.slot.lock();
        let iterator = slot.as_mut().ok_or_else(|| rocks.closed())?;
        let result = f(iterator);
        iterator
            .status()
            .map_err(|e| failure("a scan", rocks.path(), e))?;
        Ok(result)
    }

    /// A cursor that was closed by its owner.
    pub fn ended() -> Error {
        Error::new(
            ErrorKind::StoreClosed,
            "the iterator is closed; open another one",
        )
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        let rocks = self.snapshot.rocks();
        if !rocks.in_owner_process() {
            std::mem::forget(Arc::clone(&self.slot));
            return;
        }
        let _guard = sync::read_recursive(&rocks.db);
        rocks.slots.lock().remove(&self.id);
        drop(self.slot.lock().take());
    }
}
