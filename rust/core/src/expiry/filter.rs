//! Which version rows of one pass over a table have expired.

use super::version_key;

/// Computes the end of each version row during one pass over a table in key order. A version ends
/// when the next newer version of its key begins.
pub struct ExpiryFilter {
    horizon: i64,
    part: Vec<u8>,
    newer_begin: Option<i64>,
}

impl ExpiryFilter {
    /// Returns a filter for one pass.
    pub fn new(horizon: i64) -> Self {
        Self {
            horizon,
            part: Vec::new(),
            newer_begin: None,
        }
    }

    /// Returns whether this row can be dropped. The row must follow all newer rows of its key in
    /// the pass.
    pub fn expired(&mut self, row_key: &[u8]) -> bool {
        self.end(row_key).is_some_and(|end| end < self.horizon)
    }

    /// Returns the end of this row's validity. The row must follow all newer rows of its key in the
    /// pass.
    ///
    /// If the next newer row is outside the pass, this row's end is missing or too late, and the
    /// row expires in a later pass. The newest row of a key never ends.
    pub fn end(&mut self, row_key: &[u8]) -> Option<i64> {
        if row_key.len() < version_key::BEGIN_BYTES {
            return None;
        }
        let (part, begin) = version_key::split(row_key);
        if part != self.part {
            self.part.clear();
            self.part.extend_from_slice(part);
            self.newer_begin = None;
        }
        self.newer_begin.replace(begin)
    }
}
