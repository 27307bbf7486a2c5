//! The host's log: lines on stderr, which whoever starts the host sends to a file.

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
        // One write a line, so that lines of several threads do not mix; a log that cannot be
        // written stops nobody.
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
    }

    fn flush(&self) {}
}

/// Sends log lines of this process to stderr, unless another logger is set already. `HOLDFAST_LOG`
/// (`warn`, `debug`, …) sets the level; `info` if it is not set.
pub fn to_stderr() {
    let level = std::env::var("HOLDFAST_LOG")
        .ok()
        .and_then(|level| level.parse().ok());
    if log::set_logger(&Stderr).is_ok() {
        log::set_max_level(level.unwrap_or(LevelFilter::Info));
    }
}
