//! Memory that all databases of a process share: one block cache, one write-buffer manager
//! (`docs/design/stores.md`).

use parking_lot::Mutex;
use rust_rocksdb::{Cache, WriteBufferManager};

/// Sizes in bytes, for the whole process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedMemory {
    /// Blocks of files that have been read.
    pub block_cache: usize,
    /// Committed rows that are not yet in files, of all databases together.
    pub write_buffers: usize,
}

impl Default for SharedMemory {
    fn default() -> Self {
        Self {
            block_cache: 128 << 20,
            write_buffers: 128 << 20,
        }
    }
}

/// The shared memory of this process.
pub(super) struct ProcessMemory {
    pub(super) cache: Cache,
    pub(super) write_buffers: WriteBufferManager,
    sizes: SharedMemory,
}

static SHARED: Mutex<Option<ProcessMemory>> = Mutex::new(None);

/// Sets the sizes, for open databases and for those opened later.
///
/// A block cache that becomes smaller evicts blocks only when the next block is inserted. The
/// number of its blocks stays limited by its first size: about one block for each 560 bytes.
pub fn configure_shared_memory(sizes: SharedMemory) {
    let mut shared = SHARED.lock();
    match shared.as_mut() {
        Some(shared) => {
            shared.cache.set_capacity(sizes.block_cache);
            shared.write_buffers.set_buffer_size(sizes.write_buffers);
            shared.sizes = sizes;
        }
        None => *shared = Some(ProcessMemory::new(sizes)),
    }
}

/// Returns the current sizes.
pub fn shared_memory() -> SharedMemory {
    SHARED
        .lock()
        .as_ref()
        .map_or_else(SharedMemory::default, |shared| shared.sizes)
}

impl ProcessMemory {
    fn new(sizes: SharedMemory) -> Self {
        Self {
            // A hit in the clock cache costs 20 % less than in the LRU (`docs/design/layout.md`);
            // with 0 the cache estimates the sizes of its entries.
            cache: Cache::new_hyper_clock_cache(sizes.block_cache, 0),
            write_buffers: WriteBufferManager::new_write_buffer_manager(sizes.write_buffers, false),
            sizes,
        }
    }
}

pub(super) fn with_shared<R>(f: impl FnOnce(&ProcessMemory) -> R) -> R {
    f(SHARED
        .lock()
        .get_or_insert_with(|| ProcessMemory::new(SharedMemory::default())))
}
