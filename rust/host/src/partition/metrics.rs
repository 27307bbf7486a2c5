//! The figures of a partition.

use std::sync::atomic::Ordering;

use holdfast_core::{Database, FigureValue, Result};

use super::state::PartitionState;
use crate::net::metrics::{DatabaseAccess, DatabaseFigures, PartitionMetrics};

impl PartitionState {
    /// Returns the figures of the partition. It does not wait for a session.
    pub fn metrics(&self) -> PartitionMetrics {
        let mut metrics = PartitionMetrics::new(self.operator.clone(), self.number);
        metrics.snapshots.is_uploading = self.uploading.load(Ordering::Relaxed);
        metrics.snapshots.bytes = self.origin.lock().bytes();
        metrics.restore = self.restore.now();
        let Some(inner) = self.try_lock() else {
            metrics.access = DatabaseAccess::Busy;
            return metrics;
        };
        let history = &inner.snapshots;
        let begun = history.last_begun.filter(|_| history.has_begun);
        metrics.snapshots.epoch = history.newest;
        metrics.snapshots.age_seconds = begun.map(|begun| begun.elapsed().as_secs_f64());
        metrics.snapshots.failures = history.failures;
        metrics.snapshots.log_bytes = history.log_bytes;
        metrics.snapshots.is_restored = history.is_restored;
        metrics.snapshots.rebuilds = inner.damages;
        metrics.prepared.epochs = inner.prepared.len() as u64;
        metrics.prepared.bytes = inner.prepared.bytes();
        let db = inner.open.as_ref().map(|open| open.db.clone());
        drop(inner);
        if let Some(db) = db {
            metrics.access = DatabaseAccess::Open;
            if let Err(error) = self.add_figures(&db, &mut metrics) {
                log::debug!("{self}: its database's figures cannot be read: {error}");
            }
        }
        metrics
    }

    fn add_figures(&self, db: &Database, metrics: &mut PartitionMetrics) -> Result<()> {
        metrics.epoch = self.applied(db)?;
        let figures = db.metrics()?;
        let whole = |value: Option<FigureValue>| match value {
            Some(FigureValue::Whole(value)) => value,
            _ => 0,
        };
        let sum = |name: &str| {
            let stores = figures.stores.iter();
            let values = stores.map(|store| whole(figures.of_store(&store.store, name)));
            values.sum()
        };
        let commits = match figures.get("commit-latency-avg") {
            Some(FigureValue::Real(seconds)) => seconds,
            _ => 0.0,
        };
        metrics.database = DatabaseFigures {
            rows: sum("rows"),
            commit_seconds: commits,
            files: whole(figures.get("file-bytes")),
            unflushed: whole(figures.get("unflushed-bytes")),
            pending_compaction: sum("estimate-pending-compaction-bytes"),
            level0_files: sum("num-files-at-level0"),
        };
        let transaction = db.begin()?;
        for store in &figures.stores {
            let time = db.stream_time(&store.store, &transaction)?;
            metrics.stream_time = metrics.stream_time.max(time.map(|time| time.0));
        }
        Ok(())
    }
}
