//! How much memory a transaction may use before it spills.

use super::spiller::Spiller;
use std::sync::Arc;

/// When a transaction spills, and the memory that it has used.
pub(in crate::transaction) struct MemoryLimit {
    /// Where it spills; `None` for a reader and for a database that never spills.
    pub(in crate::transaction) spiller: Option<Arc<Spiller>>,
    /// The transaction's own limit, if it is lower than the database's.
    pub(super) bytes: Option<usize>,
    /// The number of staged bytes at which the memory is measured again.
    pub(in crate::transaction) measure_at: u64,
    /// The most memory used before a spill.
    pub(super) peak: usize,
}

impl MemoryLimit {
    /// The limit of a transaction that has staged nothing.
    pub(in crate::transaction) fn new(spiller: Option<Arc<Spiller>>) -> Self {
        Self {
            spiller,
            bytes: None,
            measure_at: 0,
            peak: 0,
        }
    }

    /// The bytes of staged records at which the transaction spills.
    pub(super) fn limit(&self, spiller: &Spiller) -> usize {
        self.bytes.unwrap_or(usize::MAX).min(spiller.limit())
    }
}
