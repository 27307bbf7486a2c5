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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_is_full_at_the_key_that_brings_its_memory_to_the_limit() {
        let keys: [&[u8]; 4] = [b"", b"key", &[7; 1_000], &[7; CHUNK_BYTES]];
        for key in keys {
            let mut chunk = KeyChunk::default();
            let count = (1..=CHUNK_BYTES)
                .find(|_| !chunk.push(key))
                .expect("a full chunk");
            let memory = key.len() + size_of::<usize>();
            assert!(
                count * memory >= CHUNK_BYTES && (count - 1) * memory < CHUNK_BYTES,
                "{count} keys of {} bytes",
                key.len()
            );
        }
    }

    #[test]
    fn drained_keys_are_those_that_were_added_since_the_last_drain() -> Result<()> {
        let mut chunk = KeyChunk::default();
        for round in 0..3 {
            let keys: [&[u8]; 4] = [b"b", b"", &[round], b"a"];
            for key in keys {
                assert!(chunk.push(key), "round {round}");
            }
            let mut drained = Vec::new();
            chunk.drain(&mut |key| {
                drained.push(key.to_vec());
                Ok(())
            })?;
            assert_eq!(drained, keys, "round {round}");
        }
        Ok(())
    }
}
