//! The moment before which history may be dropped.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// The moment before which history may be dropped, shared with compactions. It only rises.
///
/// It must stay at or below the first retained moment of every view that can still be read, and of
/// every state that a crash can restore. If a crash restored an earlier stream time, a replay would
/// miss the rows that were dropped for the later one.
#[derive(Clone, Debug)]
pub struct Horizon(Arc<SharedHorizon>);

#[derive(Debug)]
struct SharedHorizon {
    moment: AtomicI64,
    /// The ends that rewrites of files report; `None` if no ends were requested.
    ends: Mutex<Option<Ends>>,
}

/// How many of the retained rows end in each segment of time.
#[derive(Clone, Debug)]
pub struct Ends {
    /// Microseconds of a segment.
    segment: i64,
    rows: BTreeMap<i64, u64>,
}

impl Default for Horizon {
    fn default() -> Self {
        Self(Arc::new(SharedHorizon {
            moment: AtomicI64::new(i64::MIN),
            ends: Mutex::new(None),
        }))
    }
}

impl Horizon {
    /// Returns the current moment.
    pub fn get(&self) -> i64 {
        self.0.moment.load(Ordering::Acquire)
    }

    pub(crate) fn raise(&self, to: i64) {
        self.0.moment.fetch_max(to, Ordering::AcqRel);
    }

    /// Makes later rewrites report the ends of the rows that they retain.
    pub(crate) fn ask_ends(&self, segment: i64) {
        *self.0.ends.lock() = Some(Ends::new(segment));
    }

    /// Returns the ends that the rewrites reported, and ends the reports.
    pub(crate) fn take_ends(&self) -> Option<Ends> {
        self.0.ends.lock().take()
    }

    /// Returns an empty count for one rewrite, if ends were requested.
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

    /// Counts a retained row.
    #[inline]
    pub(crate) fn note(&mut self, end: i64) {
        *self.rows.entry(end.div_euclid(self.segment)).or_default() += 1;
    }

    /// The first segment before which at least `rows` rows have ended.
    pub(crate) fn ended(&self, rows: u64) -> Option<i64> {
        let mut ended = 0;
        self.rows.iter().find_map(|(segment, n)| {
            ended += n;
            (ended >= rows).then(|| segment.saturating_add(1))
        })
    }
}
