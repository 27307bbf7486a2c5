//! Counters.

use crate::metrics::window::RateWindow;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A count, and the window of its rate.
pub(crate) struct Counter {
    total: AtomicU64,
    window: Mutex<RateWindow<1>>,
}

/// A sample of a counter: its total and rate.
#[derive(Clone, Copy)]
pub(crate) struct Count {
    pub(crate) total: u64,
    pub(crate) rate: f64,
}

impl Default for Counter {
    fn default() -> Self {
        Self {
            total: AtomicU64::new(0),
            window: Mutex::new(RateWindow::new(Instant::now(), [0])),
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

    pub(crate) fn sample(&self, now: Instant) -> Count {
        let mut window = self.window.lock();
        let total = self.total();
        Count {
            total,
            rate: window.sample(now, [total]).rate(0),
        }
    }
}
