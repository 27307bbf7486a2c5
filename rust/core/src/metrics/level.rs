//! How much is measured.

/// How much is measured. Measurements that cost time in each call are made at `Debug` only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetricsLevel {
    /// Counts of all calls, and times of long work: commits, batches, open iterators.
    #[default]
    Info,
    /// Also the time of every other call, and RocksDB's statistics.
    Debug,
}

impl MetricsLevel {
    /// Returns the name in settings and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }
}
