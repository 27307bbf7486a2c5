//! The requests that a gateway has answered.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;

/// The upper bounds of the classes that requests are counted in, in seconds.
pub const REQUEST_SECONDS: [f64; 10] = [
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.25, 1.0, 5.0, 30.0,
];

/// The requests that a gateway has answered, since its start.
#[derive(Default)]
pub struct Traffic {
    answered: Mutex<BTreeMap<(&'static str, u16), Answered>>,
}

/// Requests to a path with one status.
#[derive(Debug, Clone, Default)]
pub struct Answered {
    /// How many took at most as long as each bound of [`REQUEST_SECONDS`], and longer than the
    /// previous bound. The last number counts all others.
    pub by_seconds: [u64; REQUEST_SECONDS.len() + 1],
    /// How long they took together.
    pub seconds: f64,
}

impl Traffic {
    /// Counts the start of an answer: its head, not its rows.
    pub fn add(&self, endpoint: &'static str, status: u16, took: Duration) {
        let seconds = took.as_secs_f64();
        let class = REQUEST_SECONDS.partition_point(|bound| *bound < seconds);
        let mut answered = self.answered.lock();
        let answered = answered.entry((endpoint, status)).or_default();
        answered.by_seconds[class] += 1;
        answered.seconds += seconds;
    }

    /// The requests by endpoint and status.
    pub fn answered(&self) -> Vec<((&'static str, u16), Answered)> {
        let answered = self.answered.lock();
        answered
            .iter()
            .map(|(key, value)| (*key, value.clone()))
            .collect()
    }
}
