//! The stores that a database was opened with, and their tables.

use super::store::Store;
use crate::metrics::StoreCounts;
use crate::store::StoreSpec;
use crate::transaction::Table;
use std::sync::Arc;

/// A store of an open database.
pub(in crate::database) struct StoreEntry {
    pub(in crate::database) spec: StoreSpec,
    pub(in crate::database) store: Store,
    pub(in crate::database) counts: Arc<StoreCounts>,
}

/// The stores of an open database.
pub(in crate::database) struct StoreCatalog {
    pub(in crate::database) tables: Arc<[Table]>,
    pub(in crate::database) entries: Vec<StoreEntry>,
    /// Stores of the database that this open does not name.
    pub(in crate::database) absent: Vec<String>,
}

impl StoreEntry {
    /// Whether its writes bypass the transaction.
    pub(in crate::database) fn is_direct(&self) -> bool {
        !self.spec.transactional
    }
}
