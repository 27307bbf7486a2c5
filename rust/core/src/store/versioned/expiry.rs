//! Expiry: what no read can ask for any more is dropped when its file is rewritten.

use super::layout;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// The moment before which history may be dropped, shared with compactions. It only rises.
///
/// It must stay at or below `stream time - retention` of every view that can still be read, and of
/// every state that a crash can fall back to: rows dropped for a stream time that a crash then
/// forgets would be missing in the replay.
#[derive(Clone, Debug)]
pub struct Horizon(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    moment: AtomicI64,
    /// What a rewrite of files finds out while it is asked to.
    ends: Mutex<Option<Ends>>,
}

/// How many of the rows that were kept end in which segment of time.
#[derive(Clone, Debug)]
pub struct Ends {
    /// Microseconds of a segment.
    segment: i64,
    rows: BTreeMap<i64, u64>,
}

impl Default for Horizon {
    fn default() -> Self {
        Self(Arc::new(Inner {
            moment: AtomicI64::new(i64::MIN),
            ends: Mutex::new(None),
        }))
    }
}

impl Horizon {
    /// The moment in force.
    pub fn get(&self) -> i64 {
        self.0.moment.load(Ordering::Acquire)
    }

    pub(crate) fn raise(&self, to: i64) {
        self.0.moment.fetch_max(to, Ordering::AcqRel);
    }

    /// Asks the rewrites that follow for the ends of the rows that they keep.
    pub(crate) fn ask_ends(&self, segment: i64) {
        *self.0.ends.lock() = Some(Ends::new(segment));
    }

    /// What they found, and no more questions.
    pub(crate) fn take_ends(&self) -> Option<Ends> {
        self.0.ends.lock().take()
    }

    /// Where a rewrite notes ends, if it was asked to.
    pub(crate) fn wanted_ends(&self) -> Option<Ends> {
        self.0
            .ends
            .lock()
            .as_ref()
            .map(|asked| Ends::new(asked.segment))
    }

    pub(crate) fn add_ends(&self, found: &Ends) {
        if let Some(ends) = self.0.ends.lock().as_mut() {
            for (segment, rows) in &found.rows {
                *ends.rows.entry(*segment).or_default() += rows;
            }
        }
    }
}

impl Ends {
    fn new(segment: i64) -> Self {
        Self {
            segment,
            rows: BTreeMap::new(),
        }
    }

    /// Notes a row that was kept.
    #[inline]
    pub(crate) fn note(&mut self, end: i64) {
        *self.rows.entry(end.div_euclid(self.segment)).or_default() += 1;
    }

    /// The first segment before which so many rows have ended.
    pub(crate) fn ended(&self, rows: u64) -> Option<i64> {
        let mut ended = 0;
        self.rows.iter().find_map(|(segment, n)| {
            ended += n;
            (ended >= rows).then(|| segment.saturating_add(1))
        })
    }
}

/// Finds, over rows in key order, when each has ended: when the next newer version of its key
/// began.
pub struct ExpiryFilter {
    horizon: i64,
    part: Vec<u8>,
    newer_begin: Option<i64>,
}

impl ExpiryFilter {
    /// A filter for one pass.
    pub fn new(horizon: i64) -> Self {
        Self {
            horizon,
            part: Vec::new(),
            newer_begin: None,
        }
    }

    /// Whether this row, met after all newer rows of its key that the pass holds, can be dropped.
    pub fn expired(&mut self, row_key: &[u8]) -> bool {
        self.end(row_key).is_some_and(|end| end < self.horizon)
    }

    /// The end of this row's validity, met after all newer rows of its key that the pass holds.
    ///
    /// A newer row outside the pass is not seen, and the row then has no end: never wrong, only
    /// later. The newest row of a key has none before it and never ends.
    pub fn end(&mut self, row_key: &[u8]) -> Option<i64> {
        if row_key.len() < crate::table::TIME_BYTES {
            return None;
        }
        let (part, begin) = layout::split(row_key);
        if part != self.part {
            self.part.clear();
            self.part.extend_from_slice(part);
            self.newer_begin = None;
        }
        self.newer_begin.replace(begin)
    }
}
