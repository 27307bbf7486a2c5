//! Progress of a restore: lines of the host's log, and figures for readers.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::net::metrics::{RestoreMetrics, RestoreSource};

/// The minimum time between two lines.
const BETWEEN: Duration = Duration::from_secs(2);

/// Limits how often progress is logged.
pub struct ProgressPace {
    started: Instant,
    logged: Mutex<Instant>,
}

impl ProgressPace {
    /// Starts now; the first line is due later.
    pub fn start() -> Self {
        let now = Instant::now();
        Self {
            started: now,
            logged: Mutex::new(now),
        }
    }

    /// Returns the time since the start.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns the time since the start if a line is due.
    ///
    /// If several threads call this at once, only one of them gets the time.
    pub fn due(&self) -> Option<Duration> {
        let mut logged = self.logged.try_lock()?;
        if logged.elapsed() < BETWEEN {
            return None;
        }
        *logged = Instant::now();
        Some(self.elapsed())
    }
}

/// The restore of a partition, if one runs. Readers do not wait for the partition's lock.
#[derive(Default)]
pub struct RestoreProgress(Mutex<Option<RestoreMetrics>>);

/// A running restore. It has ended when this is dropped.
pub struct RunningRestore<'a> {
    progress: &'a RestoreProgress,
    source: RestoreSource,
}

impl RestoreProgress {
    /// Begins a restore from `source`, which ends when the result is dropped.
    pub fn begin(&self, source: RestoreSource) -> RunningRestore<'_> {
        let running = RunningRestore {
            progress: self,
            source,
        };
        running.set(0, 0);
        running
    }

    /// Returns the progress of the restore; none if no restore runs.
    pub fn now(&self) -> Option<RestoreMetrics> {
        *self.0.lock()
    }
}

impl RunningRestore<'_> {
    /// Records that `done` of `all` has been read.
    pub fn set(&self, done: u64, all: u64) {
        let source = self.source;
        *self.progress.0.lock() = Some(RestoreMetrics { source, done, all });
    }
}

impl Drop for RunningRestore<'_> {
    fn drop(&mut self) {
        *self.progress.0.lock() = None;
    }
}

/// Formats a size: `512 bytes`, `12 MiB`, and in GiB from 10 GiB on: `11.0 GiB`.
pub fn bytes(count: u64) -> String {
    match count {
        0..1024 => format!("{count} bytes"),
        1024..1_048_576 => format!("{} KiB", count >> 10),
        1_048_576..10_737_418_240 => format!("{} MiB", count >> 20),
        _ => format!("{:.1} GiB", count as f64 / f64::from(1 << 30)),
    }
}

/// Formats the progress of a snapshot.
pub fn bytes_so_far(done: u64, all: u64, elapsed: Duration) -> String {
    let rate = (done as f64 / elapsed.as_secs_f64()) as u64;
    format!(
        "{} of {}, {} a second, about {} s left",
        bytes(done),
        bytes(all),
        bytes(rate),
        left(done, all, elapsed)
    )
}

/// Formats the progress of a replay: epochs, and the records in them.
pub fn epochs_so_far(done: u64, all: u64, records: u64, elapsed: Duration) -> String {
    let rate = records as f64 / elapsed.as_secs_f64();
    format!(
        "{done} of {all} epochs, {records} records, {rate:.0} a second, about {} s left",
        left(done, all, elapsed)
    )
}

/// Estimates the remaining seconds from the average so far.
fn left(done: u64, all: u64, elapsed: Duration) -> u64 {
    let ratio = all.saturating_sub(done) as f64 / done.max(1) as f64;
    (elapsed.as_secs_f64() * ratio).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_amount_rate_and_remaining_time() {
        let text = bytes_so_far(1 << 30, 3 << 30, Duration::from_secs(4));
        assert_eq!(
            text,
            "1024 MiB of 3072 MiB, 256 MiB a second, about 8 s left"
        );
        let text = epochs_so_far(12, 52, 240_000, Duration::from_millis(2_400));
        assert_eq!(
            text,
            "12 of 52 epochs, 240000 records, 100000 a second, about 8 s left"
        );
        assert_eq!(
            [bytes(1_023), bytes(2_048), bytes(11 << 30)],
            ["1023 bytes", "2 KiB", "11.0 GiB"]
        );
    }

    #[test]
    fn the_first_line_is_due_after_a_while() {
        assert_eq!(ProgressPace::start().due(), None);
        let late = ProgressPace {
            started: Instant::now(),
            logged: Mutex::new(
                Instant::now()
                    .checked_sub(BETWEEN)
                    .expect("the machine is up"),
            ),
        };
        assert!(late.due().is_some() && late.due().is_none());
    }

    #[test]
    fn a_restore_that_ended_or_failed_is_not_shown() {
        let progress = RestoreProgress::default();
        let running = progress.begin(RestoreSource::Log);
        running.set(3, 7);
        let shown = progress.now().expect("it runs");
        assert_eq!(
            (shown.source, shown.done, shown.all),
            (RestoreSource::Log, 3, 7)
        );
        drop(running);
        assert_eq!(progress.now(), None);
    }
}
