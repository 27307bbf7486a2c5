//! The stores that a database was opened with, and their tables.

use super::store::Store;
use crate::metrics::StoreCounts;
use crate::store::StoreSpec;
use crate::transaction::{StoreState, Table, Transaction};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A store of an open database.
pub(in crate::database) struct StoreEntry {
    pub(in crate::database) spec: StoreSpec,
    pub(in crate::database) store: Store,
    pub(in crate::database) counts: Arc<StoreCounts>,
    /// Whether a write has bypassed the transaction since the last commit that moved the offsets.
    pub(in crate::database) written: AtomicBool,
}

/// The stores of an open database.
pub(in crate::database) struct StoreCatalog {
    pub(in crate::database) tables: Arc<[Table]>,
    pub(in crate::database) entries: Vec<StoreEntry>,
    /// Stores of the database that this open does not name.
    pub(in crate::database) absent: Vec<String>,
}

impl StoreCatalog {
    /// Records that the committed offsets include all writes so far.
    ///
    /// After a commit that moves no offset they do not: a replay from them would apply the writes
    /// twice.
    pub(in crate::database) fn note_offsets(&self) {
        for entry in &self.entries {
            entry.written.store(false, Ordering::Relaxed);
        }
    }
}

impl StoreEntry {
    /// Whether the store's writes bypass the transaction.
    pub(in crate::database) fn is_direct(&self) -> bool {
        !self.spec.transactional
    }

    /// Whether a transaction changes the store.
    pub(in crate::database) fn is_changed(&self, tx: &Transaction, state: StoreState) -> bool {
        let tables = self.store.tables();
        state.changed || tables.iter().any(|table| tx.is_staged(*table))
    }
}
