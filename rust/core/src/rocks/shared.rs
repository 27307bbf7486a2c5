//! Memory that all databases of a process share: one block cache, one write-buffer manager
//! (`stores.md` section 2).

use parking_lot::Mutex;
use rust_rocksdb::{Cache, WriteBufferManager};

/// Sizes in bytes, for the whole process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedMemory {
    /// Blocks of files that were read.
    pub block_cache: usize,
    /// Rows that were committed and not yet written to files, all databases together.
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

pub(super) struct Shared {
    pub(super) cache: Cache,
    pub(super) write_buffers: WriteBufferManager,
    sizes: SharedMemory,
}

static SHARED: Mutex<Option<Shared>> = Mutex::new(None);

/// Sets the sizes; databases opened later, and open ones at once, live within them.
pub fn configure_shared_memory(sizes: SharedMemory) {
    let mut shared = SHARED.lock();
    match shared.as_mut() {
        Some(shared) => {
            shared.cache.set_capacity(sizes.block_cache);
            shared.write_buffers.set_buffer_size(sizes.write_buffers);
            shared.sizes = sizes;
        }
        None => *shared = Some(Shared::new(sizes)),
    }
}

/// The sizes in force.
pub fn shared_memory() -> SharedMemory {
    SHARED
        .lock()
        .as_ref()
        .map_or_else(SharedMemory::default, |shared| shared.sizes)
}

impl Shared {
    fn new(sizes: SharedMemory) -> Self {
        Self {
            // The clock cache takes 20 % off a hit against the LRU (layout.md section 3); 0 lets it
            // estimate entry sizes.
            cache: Cache::new_hyper_clock_cache(sizes.block_cache, 0),
            write_buffers: WriteBufferManager::new_write_buffer_manager(sizes.write_buffers, false),
            sizes,
        }
    }
}

pub(super) fn with_shared<R>(f: impl FnOnce(&Shared) -> R) -> R {
    f(SHARED
        .lock()
        .get_or_insert_with(|| Shared::new(SharedMemory::default())))
}
