//! What "a second" and "recently" mean: rates, means and greatest values are those of a window that
//! ends now.
//!
//! ```text
//! ──┬───────────────────┬──────────────┬
//!   first               second         now       the window: from `first` to now
//! ```
//!
//! A look at the figures that comes 30 s or more after `second` moves both on. So the window is 30
//! to 60 s long for who looks oftener than that (Kafka's windows are two of 30 s, too), reaches
//! back two looks for who does not, and to the opening of the database at first. Nothing runs in
//! the background, and counting knows nothing of it.
//!
//! A look may move the marks, so each window is looked at once for all figures that are shown
//! together.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const STEP: Duration = Duration::from_secs(30);

/// The two marks of a window over totals that only grow.
pub(crate) struct Window<const N: usize> {
    first: (Instant, [u64; N]),
    second: (Instant, [u64; N]),
}

/// What has come within the window.
pub(crate) struct Recent<const N: usize> {
    pub(crate) counts: [u64; N],
    pub(crate) seconds: f64,
    /// The marks were moved on.
    pub(crate) moved: bool,
}

impl<const N: usize> Window<N> {
    /// A window over totals that stand at this.
    pub(crate) fn new(now: Instant, totals: [u64; N]) -> Self {
        Self {
            first: (now, totals),
            second: (now, totals),
        }
    }

    pub(crate) fn look(&mut self, now: Instant, totals: [u64; N]) -> Recent<N> {
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
    pub(crate) fn rate(&self, n: usize) -> f64 {
        if self.seconds > 0.0 {
            self.counts[n] as f64 / self.seconds
        } else {
            0.0
        }
    }
}

/// Something that is counted.
pub(crate) struct Counter {
    total: AtomicU64,
    window: Mutex<Window<1>>,
}

/// A counter's total and rate, as one look has found them.
#[derive(Clone, Copy)]
pub(crate) struct Count {
    pub(crate) total: u64,
    pub(crate) rate: f64,
}

impl Default for Counter {
    fn default() -> Self {
        Self {
            total: AtomicU64::new(0),
            window: Mutex::new(Window::new(Instant::now(), [0])),
        }
    }
}

impl Counter {
    #[inline]
    pub(crate) fn add(&self, more: u64) {
        self.total.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    pub(crate) fn look(&self, now: Instant) -> Count {
        let mut window = self.window.lock();
        let total = self.total();
        Count {
            total,
            rate: window.look(now, [total]).rate(0),
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
        let mut window = Window::new(start, [0]);
        // Until two steps have gone by it reaches back to the start.
        assert_eq!(window.look(at(10), [100]).rate(0), 10.0);
        assert!(window.look(at(30), [300]).moved);
        assert_eq!(window.look(at(50), [300]).rate(0), 6.0);
        assert!(window.look(at(60), [300]).moved);
        // The 300 of the first 30 seconds are behind it now.
        assert_eq!(window.look(at(70), [420]).rate(0), 3.0);
        assert_eq!(window.look(at(70), [420]).seconds, 40.0);
    }

    #[test]
    fn who_seldom_looks_sees_all_since_the_last_look_but_one() {
        let start = Instant::now();
        let mut window = Window::new(start, [0]);
        window.look(start + Duration::from_secs(1_000), [10]);
        let recent = window.look(start + Duration::from_secs(3_000), [40]);
        assert_eq!((recent.counts, recent.seconds), ([40], 3_000.0));
        assert_eq!(
            window.look(start + Duration::from_secs(4_000), [50]).counts,
            [40]
        );
    }
}
