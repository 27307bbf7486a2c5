//! An iterator over a family as of a snapshot.

use super::failure::failure;
use super::family::Family;
use super::raw_iterator::{IteratorSlot, RawIterator};
use super::snapshot::Snapshot;
use crate::error::Result;
use crate::sync::{self, Mutex};
use crate::table::{Bounds, FamilyKind};
use rust_rocksdb::{AsColumnFamilyRef, DB, ReadOptions};
use std::sync::Arc;

/// An iterator over a family as of a snapshot.
///
/// It may be stored and sent to another thread. Closing the database ends it.
pub struct Cursor {
    id: u64,
    slot: Arc<IteratorSlot>,
    snapshot: Arc<Snapshot>,
}

impl Cursor {
    /// Returns a cursor without a position: the first call must be a seek.
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
        // SAFETY: the iterator is used only under the guard of an open database, and `close`
        // destroys it before the database.
        let db: &'static DB = unsafe { &*std::ptr::from_ref(db) };
        debug_assert!(!family.handle.inner().is_null());
        let slot = Arc::new(Mutex::new(Some(RawIterator::new(
            db.raw_iterator_cf_opt(&family.handle, options),
        ))));
        let id = rocks.iterators.add(&slot);
        drop(guard);
        Ok(Self {
            id,
            slot,
            snapshot: Arc::clone(snapshot),
        })
    }

    /// Calls `f` with the iterator; the database stays open for the length of the call.
    ///
    /// # Errors
    /// Returns the first read error of the moves in `f` and drops the return value of `f`. Rows may
    /// be missing from what `f` has already passed on.
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
}

impl Drop for Cursor {
    fn drop(&mut self) {
        let rocks = self.snapshot.rocks();
        if !rocks.in_owner_process() {
            std::mem::forget(Arc::clone(&self.slot));
            return;
        }
        let _guard = sync::read_recursive(&rocks.db);
        rocks.iterators.slots.lock().remove(&self.id);
        drop(self.slot.lock().take());
    }
}
