//! How a host's memory setting is divided.

use std::sync::Arc;

use holdfast_core::rocks::{SharedMemory, configure_shared_memory, shared_memory};

use crate::memory::budget::Budget;

/// The smallest useful block cache and write buffer, in bytes.
const MIN_SHARED: usize = 8 << 20;

/// The budgets of a host.
///
/// Cached blocks of files, rows that are not in files yet, and rows that are being sorted each get
/// a quarter of the memory. The rest is for uncommitted changes and the work of sessions; a quarter
/// of it is for readers.
#[derive(Debug)]
pub struct MemorySplit {
    sorting: Arc<Budget>,
    uncommitted: Arc<Budget>,
    reads: Arc<Budget>,
}

impl Default for MemorySplit {
    /// Budgets without limits.
    fn default() -> Self {
        Self {
            sorting: Budget::new(usize::MAX),
            uncommitted: Budget::new(usize::MAX),
            reads: Budget::new(usize::MAX),
        }
    }
}

impl MemorySplit {
    /// Divides `memory` bytes. `uncommitted_max_bytes` limits uncommitted changes; a negative value
    /// removes the limit.
    ///
    /// The queries of an executor share one host, and the last call wins.
    pub fn set_limits(&self, memory: i64, uncommitted_max_bytes: i64) {
        let quarter = usize::try_from(memory / 4).unwrap_or(0);
        let wanted = SharedMemory {
            block_cache: quarter.max(MIN_SHARED),
            write_buffers: quarter.max(MIN_SHARED),
        };
        if shared_memory() != wanted {
            configure_shared_memory(wanted);
        }
        self.sorting.set_limit(quarter);
        self.reads.set_limit(quarter / 4);
        self.uncommitted
            .set_limit(usize::try_from(uncommitted_max_bytes).unwrap_or(usize::MAX));
    }

    /// The budget of rows that are being sorted.
    #[must_use]
    pub fn sorting(&self) -> &Arc<Budget> {
        &self.sorting
    }

    /// The budget of changes that are staged and not committed.
    #[must_use]
    pub fn uncommitted(&self) -> &Arc<Budget> {
        &self.uncommitted
    }

    /// The budget of readers: rows that are being sent to them, and what they stage of epochs that
    /// are not final.
    #[must_use]
    pub fn reads(&self) -> &Arc<Budget> {
        &self.reads
    }
}
