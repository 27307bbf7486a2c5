//! Expiry: what no read can ask for any more is dropped when its file is rewritten.

use super::layout;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// The moment before which history may be dropped, shared with compactions. It only rises.
///
/// It must stay at or below `stream time - retention` of every view that can still be read, and of every state that a crash
/// can fall back to: rows dropped for a stream time that a crash then forgets would be missing in the replay.
#[derive(Clone, Debug)]
pub struct Horizon(Arc<AtomicI64>);

impl Default for Horizon {
    fn default() -> Self {
        Self(Arc::new(AtomicI64::new(i64::MIN)))
    }
}

impl Horizon {
    /// The moment in force.
    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn raise(&self, to: i64) {
        self.0.fetch_max(to, Ordering::AcqRel);
    }
}

/// Decides, over rows in key order, which have ended before the horizon: those whose next newer version began before it.
pub struct ExpiryFilter {
    horizon: i64,
    part: Vec<u8>,
    newer_begin: Option<i64>,
}

impl ExpiryFilter {
    /// A filter for one pass.
    pub fn new(horizon: i64) -> Self {
        Self { horizon, part: Vec::new(), newer_begin: None }
    }

    /// Whether this row, met after all newer rows of its key that the pass holds, can be dropped.
    ///
    /// A newer row outside the pass is not seen, and the row then stays: never wrong, only later. The newest row of a key has
    /// none before it and never goes.
    pub fn expired(&mut self, row_key: &[u8]) -> bool {
        if row_key.len() < crate::transaction::TIME_BYTES {
            return false;
        }
        let (part, begin) = layout::split(row_key);
        if part != self.part {
            self.part.clear();
            self.part.extend_from_slice(part);
            self.newer_begin = None;
        }
        let expired = self.newer_begin.is_some_and(|end| end < self.horizon);
        self.newer_begin = Some(begin);
        expired
    }
}
