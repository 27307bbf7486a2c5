//! RocksDB's statistics among the figures.

use super::counts::totals;
use crate::database::database::Database;
use crate::metrics::Sheet;
use crate::rocks::Job;
use std::time::Instant;

impl Database {
    /// Adds RocksDB's statistics, if they are on.
    pub(super) fn push_statistics(&self, sheet: &mut Sheet, now: Instant) {
        let Some(so_far) = self.rocks.tickers() else {
            return;
        };
        let recent = self.counts.rocksdb.lock().sample(now, totals(&so_far));
        let rates = [
            (
                "bytes-written",
                so_far.io.bytes_written,
                "Bytes written by commits",
            ),
            (
                "bytes-read",
                so_far.io.bytes_read,
                "Bytes of keys and values read from memtables, cache and files",
            ),
            (
                "memtable-bytes-flushed",
                so_far.io.flushed_bytes,
                "Bytes written to files by flushes",
            ),
            (
                "bytes-written-compaction",
                so_far.io.compaction_bytes_written,
                "Bytes written by compactions",
            ),
            (
                "bytes-read-compaction",
                so_far.io.compaction_bytes_read,
                "Bytes read by compactions",
            ),
        ];
        for (n, (name, total, help)) in rates.into_iter().enumerate() {
            sheet.push(
                format!("{name}-rate"),
                recent.rate(n),
                "bytes",
                format!("{help}, per second"),
            );
            sheet.push(format!("{name}-total"), total, "bytes", help);
        }
        let ratios = [
            (
                "memtable-hit-ratio",
                "Share of reads by key that a memtable answered",
            ),
            (
                "block-cache-data-hit-ratio",
                "Share of data blocks that were in the cache",
            ),
            (
                "block-cache-index-hit-ratio",
                "Share of index blocks that were in the cache",
            ),
            (
                "block-cache-filter-hit-ratio",
                "Share of filter blocks that were in the cache",
            ),
        ];
        for (n, (name, help)) in ratios.into_iter().enumerate() {
            let (hits, misses) = (recent.counts[6 + 2 * n], recent.counts[7 + 2 * n]);
            sheet.push(
                name,
                hits as f64 / (hits + misses).max(1) as f64,
                "ratio",
                help,
            );
        }
        let stalled = so_far.stall_micros as f64 / 1e6;
        sheet.push(
            "write-stall-duration-total",
            stalled,
            "seconds",
            "Time that commits waited for flushes or compactions",
        );
        let jobs = [
            (
                Job::WriteStall,
                "write-stall-duration",
                "a commit's wait for flushes or compactions",
            ),
            (Job::Flush, "memtable-flush-time", "a flush"),
            (Job::Compaction, "compaction-time", "a compaction"),
        ];
        for (job, name, what) in jobs {
            let times = self.rocks.job_times(job).unwrap_or_default();
            sheet.push(
                format!("{name}-avg"),
                times.mean / 1e6,
                "seconds",
                format!("Mean time of {what} since the database was opened"),
            );
            sheet.push(
                format!("{name}-max"),
                times.longest / 1e6,
                "seconds",
                format!("Longest time of {what} since the database was opened"),
            );
            if job != Job::WriteStall {
                let shortest = format!("Shortest time of {what} since the database was opened");
                sheet.push(
                    format!("{name}-min"),
                    times.shortest / 1e6,
                    "seconds",
                    shortest,
                );
            }
        }
        sheet.push(
            "number-file-opens-total",
            so_far.file_opens,
            "files",
            "Files that were opened",
        );
        sheet.push(
            "number-file-errors-total",
            so_far.file_errors,
            "errors",
            "Files that could not be opened or read",
        );
    }
}
