//! Memory that a transaction uses again after a spill.

use parking_lot::Mutex;
use std::sync::Arc;

/// Empty chunks of the largest size, which all arenas of a transaction share.
///
/// A spill empties tens of megabytes. If they were freed, the system would take the pages back and
/// clear them before the next records use them.
#[derive(Clone, Default)]
pub(in crate::transaction) struct SpareChunks(Arc<Mutex<Vec<Vec<u8>>>>);

impl SpareChunks {
    /// Frees the chunks.
    pub(in crate::transaction) fn free(&self) {
        self.0.lock().clear();
    }

    pub(in crate::transaction) fn take(&self) -> Option<Vec<u8>> {
        self.0.lock().pop()
    }

    pub(in crate::transaction) fn add(&self, mut chunk: Vec<u8>) {
        chunk.clear();
        self.0.lock().push(chunk);
    }
}
