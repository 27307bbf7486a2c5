//! The window of time that rates, means and greatest values cover. It ends now.
//!
//! ```text
//! ──┬───────────────────┬──────────────┬
//!   first               second         now       the window: from `first` to now
//! ```
//!
//! A sample that is taken 30 s or more after `second` moves both marks. If samples are frequent,
//! the window is 30 to 60 s long (Kafka has two windows of 30 s, too). Rarer samples make it
//! longer: if they are 30 s or more apart, it reaches back two samples. The first window begins
//! when the database is opened. Nothing runs in the background, and counting does not use the
//! window.
//!
//! A sample may move the marks, so figures that are shown together share one sample of each window.

use std::time::{Duration, Instant};

/// The shortest time between two marks.
const STEP: Duration = Duration::from_secs(30);

/// The two marks of a window over totals that only grow.
pub(crate) struct RateWindow<const N: usize> {
    first: (Instant, [u64; N]),
    second: (Instant, [u64; N]),
}

/// What was counted within the window.
pub(crate) struct Recent<const N: usize> {
    pub(crate) counts: [u64; N],
    pub(crate) seconds: f64,
    /// Whether the marks were moved.
    pub(crate) moved: bool,
}

impl<const N: usize> RateWindow<N> {
    /// Returns a window that begins now, with these totals.
    pub(crate) fn new(now: Instant, totals: [u64; N]) -> Self {
        Self {
            first: (now, totals),
            second: (now, totals),
        }
    }

    /// Returns the counts within the window; may move the marks.
    pub(crate) fn sample(&mut self, now: Instant, totals: [u64; N]) -> Recent<N> {
        let (since, before) = self.first;
        let counts = std::array::from_fn(|n| totals[n].saturating_sub(before[n]));
        let seconds = now.saturating_duration_since(since).as_secs_f64();
        let moved = now.saturating_duration_since(self.second.0) >= STEP;
        if moved {
            self.first = self.second;
            self.second = (now, totals);
        }
        Recent {
            counts,
            seconds,
            moved,
        }
    }
}

impl<const N: usize> Recent<N> {
    /// Returns the n-th count per second.
    pub(crate) fn rate(&self, n: usize) -> f64 {
        if self.seconds > 0.0 {
            self.counts[n] as f64 / self.seconds
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_ends_now_and_begins_at_most_two_steps_ago() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut window = RateWindow::new(start, [0]);
        // In the first two steps the window begins at the start.
        assert_eq!(window.sample(at(10), [100]).rate(0), 10.0);
        assert!(window.sample(at(30), [300]).moved);
        assert_eq!(window.sample(at(50), [300]).rate(0), 6.0);
        assert!(window.sample(at(60), [300]).moved);
        // The 300 of the first 30 seconds are no longer in the window.
        assert_eq!(window.sample(at(70), [420]).rate(0), 3.0);
        assert_eq!(window.sample(at(70), [420]).seconds, 40.0);
    }

    #[test]
    fn rare_samples_cover_the_time_since_the_last_sample_but_one() {
        let start = Instant::now();
        let mut window = RateWindow::new(start, [0]);
        window.sample(start + Duration::from_secs(1_000), [10]);
        let recent = window.sample(start + Duration::from_secs(3_000), [40]);
        assert_eq!((recent.counts, recent.seconds), ([40], 3_000.0));
        assert_eq!(
            window
                .sample(start + Duration::from_secs(4_000), [50])
                .counts,
            [40]
        );
    }
}
