//! The host's log: lines on stderr, which the worker that starts the host redirects to a file.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use log::{LevelFilter, Log, Metadata, Record};

struct Stderr;

impl Log for Stderr {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let line = format!(
            "{}.{:03} {:<5} {}\n",
            now.as_secs(),
            now.subsec_millis(),
            record.level(),
            record.args()
        );
        // One write per line, so that lines of threads do not mix. A failed write is ignored: the
        // host works without its log.
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
    }

    fn flush(&self) {}
}

/// Logs to stderr, unless the process has a logger already.
///
/// `HOLDFAST_LOG` (`warn`, `debug`, …) sets the level; the default is `info`.
pub fn to_stderr() {
    let level = std::env::var("HOLDFAST_LOG")
        .ok()
        .and_then(|level| level.parse().ok());
    if log::set_logger(&Stderr).is_ok() {
        log::set_max_level(level.unwrap_or(LevelFilter::Info));
    }
}
