//! Counts of a task, cheap enough to be always on.

use super::Task;
use crate::error::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[derive(Default)]
pub(super) struct Counters {
    pub(super) commits: AtomicU64,
    pub(super) commit_nanos: AtomicU64,
    pub(super) commit_nanos_max: AtomicU64,
    pub(super) flushes: AtomicU64,
}

impl Counters {
    pub(super) fn commit(&self, took: Duration) {
        let nanos = took.as_nanos() as u64;
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.commit_nanos.fetch_add(nanos, Ordering::Relaxed);
        self.commit_nanos_max.fetch_max(nanos, Ordering::Relaxed);
    }
}

/// A task's counts since it was opened.
#[derive(Clone, Debug, Default)]
pub struct TaskMetrics {
    /// Commits that succeeded.
    pub commits: u64,
    /// Mean time of a commit, in seconds.
    pub commit_latency_avg: f64,
    /// Longest time of a commit, in seconds.
    pub commit_latency_max: f64,
    /// Memory of the open transaction, in bytes.
    pub uncommitted_bytes: u64,
    /// Committed rows that are not in files yet, in bytes.
    pub unflushed_bytes: u64,
    /// Files of all stores, in bytes.
    pub file_bytes: u64,
    /// Committed rows of the stores in memory, in bytes.
    pub memory_bytes: u64,
    /// Each store's own.
    pub stores: Vec<StoreMetrics>,
}

/// A store's counts since its task was opened.
#[derive(Clone, Debug, Default)]
pub struct StoreMetrics {
    /// The store's name.
    pub name: String,
    /// About how many rows its files and memtables hold.
    pub rows: u64,
    /// Writes refused for being older than the retention (versioned, window and session stores).
    pub dropped_records: u64,
    /// Reads older than the history retention that found nothing (versioned stores).
    pub expired_reads: u64,
}

impl Task {
    /// Counts since the task was opened.
    pub fn metrics(&self) -> Result<TaskMetrics> {
        let commits = self.counters.commits.load(Ordering::Relaxed);
        let seconds = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64 / 1e9;
        let base = Arc::clone(&self.committed.read().base);
        let mut stores = Vec::with_capacity(self.stores.len());
        for entry in &self.stores {
            let (dropped_records, expired_reads) = (entry.store.dropped_records(), entry.store.expired_reads());
            let rows = match entry.store.tables().first() {
                Some(table) => base.approximate_rows(*table)?,
                None => 0,
            };
            stores.push(StoreMetrics { name: entry.spec.name.clone(), rows, dropped_records, expired_reads });
        }
        Ok(TaskMetrics {
            commits,
            commit_latency_avg: seconds(&self.counters.commit_nanos) / commits.max(1) as f64,
            commit_latency_max: seconds(&self.counters.commit_nanos_max),
            uncommitted_bytes: self.uncommitted_bytes() as u64,
            unflushed_bytes: self.unflushed_bytes(),
            file_bytes: self.database.property("rocksdb.total-sst-files-size")?,
            memory_bytes: base.memory().iter().map(|table| table.bytes() as u64).sum(),
            stores,
        })
    }
}
