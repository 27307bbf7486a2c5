//! Keys that a scan collects before they are used: few enough that they take little memory.

use crate::error::Result;

/// Bytes after which a chunk is full.
const CHUNK_BYTES: usize = 64 << 10;

/// Some keys, one after another.
#[derive(Default)]
pub(crate) struct KeyChunk {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl KeyChunk {
    /// Adds a key; returns whether there is room for another.
    pub(crate) fn push(&mut self, key: &[u8]) -> bool {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
        self.bytes.len() + self.ends.len() * size_of::<usize>() < CHUNK_BYTES
    }

    /// Calls `f` with each key, and empties the chunk.
    pub(crate) fn drain(&mut self, f: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut start = 0;
        for end in self.ends.drain(..) {
            f(&self.bytes[start..end])?;
            start = end;
        }
        self.bytes.clear();
        Ok(())
    }
}
