//! Byte strings, end to end.

/// Byte strings, end to end.
#[derive(Default)]
pub struct ByteList {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl ByteList {
    /// Adds a string.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len());
    }

    /// Returns a string by its number, from 0.
    #[inline]
    #[must_use]
    pub fn get(&self, n: usize) -> &[u8] {
        let start = n.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[n]]
    }

    /// The number of strings.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no strings.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The bytes of all strings.
    #[must_use]
    pub fn total_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Gives back memory above this many bytes, for a list that holds less.
    pub fn shrink_to(&mut self, bytes: usize) {
        self.bytes.shrink_to(bytes);
    }

    /// Removes all strings.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}
