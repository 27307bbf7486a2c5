//! A pinned view of the database: its state at one moment.

use super::rocks_db::RocksDb;
use crate::error::Result;
use crate::sync;
use rust_rocksdb::{DB, ReadOptions, SnapshotWithThreadMode};
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// The maximum bytes of values that one native MultiGet pins. The last values may exceed it.
const MULTI_GET_BYTES: u64 = 16 << 20;

/// A pinned view. It shares the ownership of its database.
pub struct Snapshot {
    inner: ManuallyDrop<SnapshotWithThreadMode<'static, DB>>,
    read_options: ReadOptions,
    rocks: Arc<RocksDb>,
}

impl RocksDb {
    /// Pins the current state.
    pub fn snapshot(self: &Arc<Self>) -> Result<Arc<Snapshot>> {
        let guard = self.guard()?;
        let db: &DB = self.opened(&guard)?;
        // SAFETY: the reference is used only while the database is open: `drop` checks that under
        // the guard, and reads through `read_options` hold the guard. The boxed database does not
        // move, and only a close frees it.
        let db: &'static DB = unsafe { &*std::ptr::from_ref(db) };
        let inner = db.snapshot();
        let mut read_options = ReadOptions::default();
        read_options.set_snapshot(&inner);
        read_options.set_value_size_soft_limit(MULTI_GET_BYTES);
        drop(guard);
        Ok(Arc::new(Snapshot {
            inner: ManuallyDrop::new(inner),
            read_options,
            rocks: Arc::clone(self),
        }))
    }
}

impl Snapshot {
    /// Returns the database of the view.
    pub fn rocks(&self) -> &Arc<RocksDb> {
        &self.rocks
    }

    pub(super) fn read_options(&self) -> &ReadOptions {
        &self.read_options
    }

    pub(super) fn pin(&self, options: &mut ReadOptions) {
        options.set_snapshot(&*self.inner);
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if !self.rocks.in_owner_process() {
            return;
        }
        let guard = sync::read_recursive(&self.rocks.db);
        if guard.is_some() {
            // SAFETY: dropped once, here, and the database is open.
            unsafe { ManuallyDrop::drop(&mut self.inner) };
        }
    }
}
