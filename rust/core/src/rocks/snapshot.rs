//! The database as it was at a moment.

use super::rocks_db::RocksDb;
use crate::error::Result;
use crate::sync;
use rust_rocksdb::{DB, ReadOptions, SnapshotWithThreadMode};
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// A pinned state, with a share of its database.
pub struct Snapshot {
    inner: ManuallyDrop<SnapshotWithThreadMode<'static, DB>>,
    read_options: ReadOptions,
    rocks: Arc<RocksDb>,
}

impl Snapshot {
    pub(super) fn new(rocks: &Arc<RocksDb>) -> Result<Arc<Self>> {
        let guard = rocks.guard()?;
        let db: &DB = rocks.opened(&guard)?;
        // SAFETY: the reference is used only while the database is open: `drop` looks under the
        // guard, and reads through `read_options` hold the guard. The boxed database does not move,
        // and `database` keeps it from being freed.
        let db: &'static DB = unsafe { &*std::ptr::from_ref(db) };
        let inner = db.snapshot();
        let mut read_options = ReadOptions::default();
        read_options.set_snapshot(&inner);
        drop(guard);
        Ok(Arc::new(Self {
            inner: ManuallyDrop::new(inner),
            read_options,
            rocks: Arc::clone(rocks),
        }))
    }

    /// The database that this is a state of.
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
