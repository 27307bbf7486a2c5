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

/// The maximum number of counts in [`Ends`].
const MOST_COUNTS: usize = 4096;

/// How many of the retained rows end in each segment of time.
///
/// If the rows end in many segments, each count is for several of them: a segment may be as short
/// as a microsecond.
#[derive(Clone, Debug)]
pub struct Ends {
    /// Microseconds of a segment.
    segment: i64,
    /// How many segments a count is for.
    width: i64,
    /// The number of rows by segment number divided by the width.
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

    /// Returns the ends that the rewrites reported. Later rewrites report none.
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
            ends.add(found);
        }
    }
}

impl Ends {
    fn new(segment: i64) -> Self {
        Self {
            segment,
            width: 1,
            rows: BTreeMap::new(),
        }
    }

    /// Counts a retained row.
    #[inline]
    pub(crate) fn note(&mut self, end: i64) {
        let segment = end.div_euclid(self.segment);
        *self.rows.entry(segment.div_euclid(self.width)).or_default() += 1;
        // One call is not enough if the rows end in segments that are far apart.
        while self.rows.len() > MOST_COUNTS {
            self.widen();
        }
    }

    fn add(&mut self, found: &Self) {
        while self.width < found.width {
            self.widen();
        }
        for (number, rows) in &found.rows {
            // Both widths are powers of two.
            let number = number.div_euclid(self.width / found.width);
            *self.rows.entry(number).or_default() += rows;
        }
        while self.rows.len() > MOST_COUNTS {
            self.widen();
        }
    }

    /// Halves the number of counts, if the rows end in neighbouring segments.
    #[cold]
    fn widen(&mut self) {
        self.width = self.width.saturating_mul(2);
        for (number, rows) in std::mem::take(&mut self.rows) {
            *self.rows.entry(number.div_euclid(2)).or_default() += rows;
        }
    }

    /// Returns the first segment before which at least `rows` rows have ended, rounded up to the
    /// width of a count.
    pub(crate) fn ended(&self, rows: u64) -> Option<i64> {
        let mut ended = 0;
        self.rows.iter().find_map(|(number, n)| {
            ended += n;
            (ended >= rows).then(|| number.saturating_add(1).saturating_mul(self.width))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bug: with segments of a microsecond, each row had a count of its own.
    #[test]
    fn counts_are_few_if_each_row_ends_in_a_segment_of_its_own() {
        const ROWS: i64 = 1 << 20;
        let horizon = Horizon::default();
        horizon.ask_ends(1);
        for part in 0..4 {
            let mut pass = horizon.wanted_ends().unwrap_or_else(|| Ends::new(1));
            for n in 0..ROWS / 4 {
                // Spread over time, and in no order of time.
                pass.note(((part * ROWS / 4 + n) * 7_919 % ROWS) * 1_000 - 500_000);
                assert!(pass.rows.len() <= MOST_COUNTS, "row {n}");
            }
            horizon.add_ends(&pass);
        }
        let ends = horizon.take_ends().unwrap_or_else(|| Ends::new(1));
        assert!(ends.rows.len() <= MOST_COUNTS);
        assert_eq!(ends.rows.values().sum::<u64>(), ROWS as u64);
        // Never too early, and late by the width of a count at most.
        for rows in [1, 100, 16_384, ROWS as u64] {
            let exact = (rows as i64 - 1) * 1_000 - 500_000 + 1;
            let ended = ends.ended(rows).unwrap_or(i64::MAX);
            assert!(
                (exact..exact + ends.width).contains(&ended),
                "{rows} rows: {ended}, not {exact}"
            );
        }
        assert_eq!(ends.ended(ROWS as u64 + 1), None);
    }

    #[test]
    fn counts_of_few_segments_are_exact() {
        let mut ends = Ends::new(10);
        [-1, 0, 9, 10, 35]
            .into_iter()
            .for_each(|end| ends.note(end));
        assert_eq!(
            [1, 2, 3, 4, 5, 6].map(|rows| ends.ended(rows)),
            [Some(0), Some(1), Some(1), Some(2), Some(4), None]
        );
    }
}
