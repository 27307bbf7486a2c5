//! How a host's memory setting is divided.

use std::sync::Arc;

use holdfast_core::rocks::{SharedMemory, configure_shared_memory, shared_memory};

use crate::memory::budget::Budget;

/// The smallest useful block cache and write buffer, in bytes.
const MIN_SHARED: usize = 8 << 20;

/// Memory of the process without any state, in bytes: Python, the code that has run, the stacks of
/// its threads (`docs/design/host-memory.md`).
const PROCESS: usize = 64 << 20;

/// The budgets of a host.
///
/// The process itself takes a fixed part of the memory, but at most half. Of the rest, cached
/// blocks of files, rows that are not in files yet, and rows that are being sorted each get a
/// quarter. The last quarter is for uncommitted changes; a quarter of it is for readers.
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
    /// Divides `memory` bytes. `uncommitted_max_bytes` limits uncommitted changes further; a
    /// negative value removes their limit.
    ///
    /// The queries of an executor share one host, and the last call wins.
    pub fn set_limits(&self, memory: i64, uncommitted_max_bytes: i64) {
        let memory = usize::try_from(memory).unwrap_or(0);
        // The state gets at least half, even if the process needs more than the other half.
        let quarter = memory.saturating_sub(PROCESS).max(memory / 2) / 4;
        let reads = quarter / 4;
        let wanted = SharedMemory {
            block_cache: quarter.max(MIN_SHARED),
            write_buffers: quarter.max(MIN_SHARED),
        };
        if shared_memory() != wanted {
            configure_shared_memory(wanted);
        }
        self.sorting.set_limit(quarter);
        self.reads.set_limit(reads);
        let uncommitted = usize::try_from(uncommitted_max_bytes)
            .map_or(usize::MAX, |bytes| bytes.min(quarter - reads));
        self.uncommitted.set_limit(uncommitted);
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

    /// The budget of readers: their large requests, rows that are being sent to them, and the
    /// staged changes that they read.
    #[must_use]
    pub fn reads(&self) -> &Arc<Budget> {
        &self.reads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_and_the_process_fit_into_the_memory() {
        for memory in [128_usize << 20, 256 << 20, 512 << 20, 8 << 30] {
            let split = MemorySplit::default();
            split.set_limits(memory as i64, i64::MAX);
            let SharedMemory {
                block_cache,
                write_buffers,
            } = shared_memory();
            let budgets = [split.sorting(), split.uncommitted(), split.reads()];
            let parts: usize = budgets.iter().map(|budget| budget.limit()).sum();
            let all = PROCESS + block_cache + write_buffers + parts;
            assert!(all <= memory && memory - all < 16, "{all} of {memory}");
        }
    }
}
