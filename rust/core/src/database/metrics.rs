//! The figures of a database and of its stores (`docs/metrics.md` lists them all).

use super::{Database, Entry};
use crate::error::Result;
use crate::metrics::{Calls, Count, Figure, FigureValue, OperationCounts, RateWindow, Sheet};
use crate::rocks::{Family, HitsAndMisses, Job, RocksDb, Tickers};
use crate::store::figures::push_figures;
use crate::transaction::Base;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Instant;

/// What a database counts beside its stores.
pub(super) struct DatabaseCounts {
    pub(super) commits: OperationCounts,
    /// Of RocksDB's totals, in the order of [`totals`].
    rocksdb: Mutex<RateWindow<14>>,
}

impl DatabaseCounts {
    pub(super) fn new(rocks: &RocksDb) -> Self {
        let so_far = rocks.tickers().unwrap_or_default();
        Self {
            commits: OperationCounts::new(true),
            rocksdb: Mutex::new(RateWindow::new(Instant::now(), totals(&so_far))),
        }
    }
}

/// A database's figures as they are now.
#[derive(Clone, Debug, Default)]
pub struct DatabaseMetrics {
    /// Of the database as a whole.
    pub figures: Vec<Figure>,
    /// Each store's own.
    pub stores: Vec<StoreMetrics>,
}

/// A store's figures as they are now.
#[derive(Clone, Debug, Default)]
pub struct StoreMetrics {
    /// The store's name.
    pub store: String,
    /// Its figures.
    pub figures: Vec<Figure>,
}

impl DatabaseMetrics {
    /// A figure of the database by its name.
    pub fn get(&self, name: &str) -> Option<FigureValue> {
        find(&self.figures, name)
    }

    /// A figure of a store by its name.
    pub fn of_store(&self, store: &str, name: &str) -> Option<FigureValue> {
        self.stores
            .iter()
            .find(|metrics| metrics.store == store)
            .and_then(|metrics| find(&metrics.figures, name))
    }
}

fn find(figures: &[Figure], name: &str) -> Option<FigureValue> {
    figures
        .iter()
        .find(|figure| figure.name == name)
        .map(|figure| figure.value)
}

/// RocksDB's integer properties of a store's families, summed: name (without `rocksdb.`), unit,
/// meaning.
const STORE_PROPERTIES: [(&str, &str, &str); 16] = [
    (
        "num-immutable-mem-table",
        "memtables",
        "Memtables that are full and not yet written to files",
    ),
    (
        "cur-size-active-mem-table",
        "bytes",
        "Size of the memtables that are written to",
    ),
    (
        "cur-size-all-mem-tables",
        "bytes",
        "Size of all memtables that are not yet written to files",
    ),
    (
        "size-all-mem-tables",
        "bytes",
        "Size of all memtables, those included that a reader still holds",
    ),
    (
        "num-entries-active-mem-table",
        "rows",
        "Rows in the memtables that are written to",
    ),
    (
        "num-deletes-active-mem-table",
        "rows",
        "Deletes in the memtables that are written to",
    ),
    (
        "num-entries-imm-mem-tables",
        "rows",
        "Rows in full memtables",
    ),
    (
        "num-deletes-imm-mem-tables",
        "rows",
        "Deletes in full memtables",
    ),
    (
        "mem-table-flush-pending",
        "families",
        "Column families that wait to be flushed",
    ),
    (
        "compaction-pending",
        "families",
        "Column families that wait to be compacted",
    ),
    (
        "estimate-pending-compaction-bytes",
        "bytes",
        "Bytes that compactions have to rewrite",
    ),
    (
        "total-sst-files-size",
        "bytes",
        "Size of all files, those included that a reader still holds",
    ),
    (
        "live-sst-files-size",
        "bytes",
        "Size of the files of the newest state",
    ),
    (
        "num-live-versions",
        "versions",
        "States of the files that somebody still holds",
    ),
    (
        "estimate-num-keys",
        "rows",
        "About how many rows files and memtables hold",
    ),
    (
        "estimate-table-readers-mem",
        "bytes",
        "Memory of open files outside the block cache",
    ),
];

/// The same of the whole database, or of what the process's databases share.
const TASK_PROPERTIES: [(&str, &str, &str); 6] = [
    ("num-running-flushes", "flushes", "Flushes that are running"),
    (
        "num-running-compactions",
        "compactions",
        "Compactions that are running",
    ),
    (
        "background-errors",
        "errors",
        "Flushes and compactions that failed since the database was opened",
    ),
    (
        "block-cache-capacity",
        "bytes",
        "Size that the block cache may have; all databases of a process share it",
    ),
    (
        "block-cache-usage",
        "bytes",
        "Size that the block cache has; all databases of a process share it",
    ),
    (
        "block-cache-pinned-usage",
        "bytes",
        "Blocks of the cache that are being read; all databases of a process share it",
    ),
];

impl Database {
    /// The figures as they are now.
    pub fn metrics(&self) -> Result<DatabaseMetrics> {
        self.metrics_at(Instant::now())
    }

    fn metrics_at(&self, now: Instant) -> Result<DatabaseMetrics> {
        self.rocks.check_owner()?;
        let base = Arc::clone(&self.committed.read().base);
        let mut sheet = Sheet::default();
        // The figures of the database and of its stores share these samples.
        let commits = self.counts.commits.sample(now);
        let dropped: Vec<Count> = self
            .stores
            .iter()
            .map(|entry| entry.counts.dropped.sample(now))
            .collect();
        push_commits(&mut sheet, &commits);
        sheet.push(
            "uncommitted-bytes",
            self.uncommitted_bytes() as u64,
            "bytes",
            "Memory of the open transaction",
        );
        sheet.push(
            "unflushed-bytes",
            self.unflushed_bytes(),
            "bytes",
            "Committed rows that are not in files yet",
        );
        let file_bytes = self.rocks.property("rocksdb.total-sst-files-size")?;
        sheet.push("file-bytes", file_bytes, "bytes", "Files of all stores");
        let memory_bytes: u64 = base.memory().iter().map(|table| table.bytes() as u64).sum();
        sheet.push(
            "memory-bytes",
            memory_bytes,
            "bytes",
            "Committed rows of the stores in memory",
        );
        let of_all = Count {
            rate: dropped.iter().map(|count| count.rate).sum(),
            total: dropped.iter().map(|count| count.total).sum(),
        };
        sheet.push_count(
            "dropped-records",
            of_all,
            "records",
            "Writes refused by all stores for being too old",
        );
        for (name, unit, help) in TASK_PROPERTIES {
            sheet.push(
                name,
                self.rocks
                    .family_property(self.metadata, &format!("rocksdb.{name}"))?,
                unit,
                help,
            );
        }
        self.push_statistics(&mut sheet, now);
        let stores = self.stores.iter().zip(dropped).map(|(entry, dropped)| {
            let mut sheet = Sheet::default();
            push_figures(&entry.counts, &mut sheet, &entry.spec.kind, dropped, now);
            // Stores are committed together (KIP-1035 has these by store).
            push_commits(&mut sheet, &commits);
            self.push_sizes(&mut sheet, entry, &base)?;
            Ok(StoreMetrics {
                store: entry.spec.name.clone(),
                figures: sheet.finish(),
            })
        });
        let stores = stores.collect::<Result<_>>()?;
        Ok(DatabaseMetrics {
            figures: sheet.finish(),
            stores,
        })
    }

    fn push_sizes(&self, sheet: &mut Sheet, entry: &Entry, base: &Base) -> Result<()> {
        let tables = entry.store.tables();
        let uncommitted = self.uncommitted_bytes_of(&tables) as u64;
        sheet.push(
            "uncommitted-bytes",
            uncommitted,
            "bytes",
            "Memory of what the open transaction holds for the store",
        );
        let rows = tables
            .first()
            .map_or(Ok(0), |table| base.approximate_rows(*table))?;
        sheet.push(
            "rows",
            rows,
            "rows",
            "About how many rows of data there are, old versions included",
        );
        let families: Vec<Family> = tables
            .iter()
            .filter_map(|table| table.place.family())
            .collect();
        if !families.is_empty() {
            for (name, unit, help) in STORE_PROPERTIES {
                sheet.push(
                    name,
                    self.rocks
                        .families_property(&families, &format!("rocksdb.{name}"))?,
                    unit,
                    help,
                );
            }
        }
        Ok(())
    }

    fn push_statistics(&self, sheet: &mut Sheet, now: Instant) {
        let Some(so_far) = self.rocks.tickers() else {
            return;
        };
        let recent = self.counts.rocksdb.lock().sample(now, totals(&so_far));
        let rates = [
            (
                "bytes-written",
                so_far.bytes_written,
                "Bytes written by commits",
            ),
            (
                "bytes-read",
                so_far.bytes_read,
                "Bytes of keys and values read from memtables, cache and files",
            ),
            (
                "memtable-bytes-flushed",
                so_far.flushed_bytes,
                "Bytes written to files by flushes",
            ),
            (
                "bytes-written-compaction",
                so_far.compaction_bytes_written,
                "Bytes written by compactions",
            ),
            (
                "bytes-read-compaction",
                so_far.compaction_bytes_read,
                "Bytes read by compactions",
            ),
        ];
        for (n, (name, total, help)) in rates.into_iter().enumerate() {
            sheet.push(
                format!("{name}-rate"),
                recent.rate(n),
                "bytes",
                format!("{help}, a second"),
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
            let times = self.rocks.times(job).unwrap_or_default();
            sheet.push(
                format!("{name}-avg"),
                times.mean / 1e6,
                "seconds",
                format!("Mean time of {what} since the database was opened"),
            );
            sheet.push(
                format!("{name}-max"),
                times.most / 1e6,
                "seconds",
                format!("Longest time of {what} since the database was opened"),
            );
            if job != Job::WriteStall {
                let shortest = format!("Shortest time of {what} since the database was opened");
                sheet.push(
                    format!("{name}-min"),
                    times.least / 1e6,
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

fn push_commits(sheet: &mut Sheet, commits: &Calls) {
    commits.push_to(sheet, "commit", "Commits");
    for name in ["flush-rate", "flush-latency-avg", "flush-latency-max"] {
        let unit = if name == "flush-rate" {
            "calls"
        } else {
            "seconds"
        };
        sheet.push(
            name,
            0.0,
            unit,
            "Always 0: StateStore.flush is deprecated, see commit",
        );
    }
}

fn totals(tickers: &Tickers) -> [u64; 14] {
    let pairs = [
        tickers.memtable,
        tickers.data_blocks,
        tickers.index_blocks,
        tickers.filter_blocks,
    ];
    let [memtable, data, index, filter] =
        pairs.map(|HitsAndMisses { hits, misses }| [hits, misses]);
    [
        tickers.bytes_written,
        tickers.bytes_read,
        tickers.flushed_bytes,
        tickers.compaction_bytes_written,
        tickers.compaction_bytes_read,
        tickers.stall_micros,
        memtable[0],
        memtable[1],
        data[0],
        data[1],
        index[0],
        index[1],
        filter[0],
        filter[1],
    ]
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::{DatabaseOptions, OffsetChange, StoreKind, StoreSpec, Timestamp, WindowPut};
    use std::time::Duration;

    /// The first of two looks at one window used to move its marks, so that the database and its
    /// stores told of different times.
    #[test]
    fn who_seldom_asks_is_told_the_same_under_every_name() {
        let kind = StoreKind::Window {
            retention: 10,
            window_size: 1,
            retain_duplicates: false,
            timestamped: false,
        };
        let db = Database::open_in_memory(&[StoreSpec::new("w", kind)], DatabaseOptions::default())
            .unwrap();
        let opened = Instant::now();
        let window = db.window("w").unwrap();
        let put_at = |start| {
            let put = WindowPut {
                key: b"a",
                value: Some(b"1"),
                start: Timestamp(start),
                timestamp: None,
            };
            window.put(&mut db.transaction().unwrap(), put).unwrap();
        };
        for step in 1..=4 {
            put_at(1_000);
            // Refused: long past the retention.
            put_at(0);
            db.commit(OffsetChange::Keep).unwrap();
            let metrics = db
                .metrics_at(opened + Duration::from_secs(31 * step))
                .unwrap();
            let pairs = [
                ("commit-rate", "commit-rate"),
                ("commit-latency-avg", "commit-latency-avg"),
                ("commit-latency-max", "commit-latency-max"),
                ("dropped-records-rate", "dropped-records-rate"),
                ("dropped-records-rate", "expired-window-record-drop-rate"),
            ];
            for (of_database, of_store) in pairs {
                let figure = metrics.get(of_database).unwrap();
                assert_ne!(
                    figure,
                    FigureValue::Real(0.0),
                    "{of_database} after {step} steps"
                );
                assert_eq!(
                    metrics.of_store("w", of_store),
                    Some(figure),
                    "{of_store} after {step} steps"
                );
            }
        }
    }
}
