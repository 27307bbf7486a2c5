//! Waiting for what happens in another thread or process.

use std::thread;
use std::time::{Duration, Instant};

/// How long a test waits at most.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Polls until the condition holds; panics with `failure` after [`PATIENCE`].
pub fn wait_until(condition: impl Fn() -> bool, failure: impl Fn() -> String) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < PATIENCE, "{}", failure());
        thread::sleep(Duration::from_millis(2));
    }
}
