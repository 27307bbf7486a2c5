//! The counters of a host since its start.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::net::metrics::{READ_SECONDS, ReadMetrics, UnusedRows};
use crate::protocol::{Counts, OperatorName, PartitionId};

/// The counters of a host since its start.
#[derive(Default)]
pub struct HostCounters {
    /// Open connections.
    pub connections: AtomicU64,
    /// Open sessions.
    pub sessions: AtomicU64,
    by_seconds: [AtomicU64; READ_SECONDS.len() + 1],
    nanos: AtomicU64,
    rows: AtomicU64,
    unused: Mutex<HashMap<PartitionName, UnusedRows>>,
}

/// A partition of a root.
type PartitionName = (PathBuf, OperatorName, PartitionId);

impl HostCounters {
    /// Counts a read.
    pub fn add_read(&self, took: Duration, rows: u64) {
        let seconds = took.as_secs_f64();
        let class = READ_SECONDS.partition_point(|bound| *bound < seconds);
        self.by_seconds[class].fetch_add(1, Ordering::Relaxed);
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// Returns the figures of the reads.
    pub fn reads(&self) -> ReadMetrics {
        let counts = self.by_seconds.iter();
        ReadMetrics {
            by_seconds: counts.map(|count| count.load(Ordering::Relaxed)).collect(),
            seconds: Duration::from_nanos(self.nanos.load(Ordering::Relaxed)).as_secs_f64(),
            rows: self.rows.load(Ordering::Relaxed),
        }
    }

    /// Adds a session's counts.
    pub fn add_rows(
        &self,
        root: &Path,
        operator: &OperatorName,
        partition: PartitionId,
        counts: &Counts,
    ) {
        let mut unused = self.unused.lock();
        let name = (root.to_owned(), operator.clone(), partition);
        let rows = unused.entry(name).or_default();
        rows.late += counts.late;
        rows.expired += counts.expired;
        rows.dropped += counts.dropped;
        rows.far_future += counts.ahead;
    }

    /// Forgets the rows of a root that was deleted, replaced, or restored from a backup.
    pub fn forget(&self, root: &Path) {
        self.unused.lock().retain(|(of, ..), _| of != root);
    }

    /// Returns how many rows of a partition had no result.
    pub fn unused_rows(
        &self,
        root: &Path,
        operator: &OperatorName,
        partition: PartitionId,
    ) -> UnusedRows {
        let name = (root.to_owned(), operator.clone(), partition);
        self.unused.lock().get(&name).copied().unwrap_or_default()
    }
}

/// Counts an open connection or session until it is dropped.
pub struct OpenCount<'a>(&'a AtomicU64);

impl<'a> OpenCount<'a> {
    /// Counts one more.
    pub fn of(count: &'a AtomicU64) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for OpenCount<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_counted_by_their_time() {
        let counters = HostCounters::default();
        counters.add_read(Duration::from_micros(100), 1);
        counters.add_read(Duration::from_micros(101), 2);
        counters.add_read(Duration::from_secs(11), 3);
        let reads = counters.reads();
        assert_eq!((reads.by_seconds[0], reads.by_seconds[1]), (1, 1));
        assert_eq!(reads.by_seconds.last(), Some(&1));
        assert_eq!(reads.rows, 6);
        assert!((reads.seconds - 11.000_201).abs() < 1e-9);
    }

    #[test]
    fn a_forgotten_root_has_no_row_counts() {
        let counters = HostCounters::default();
        let name = OperatorName::new("join").expect("a name");
        let counts = Counts {
            late: 3,
            ..Counts::default()
        };
        let roots = ["/a", "/b"].map(Path::new);
        let late = || {
            roots.map(|root| {
                let rows = counters.unused_rows(root, &name, PartitionId(0));
                rows.late
            })
        };
        for root in roots {
            counters.add_rows(root, &name, PartitionId(0), &counts);
        }
        counters.forget(roots[0]);
        assert_eq!(late(), [0, 3]);
    }
}
