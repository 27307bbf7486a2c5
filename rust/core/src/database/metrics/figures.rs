//! Collects the figures of a database and of its stores (`docs/metrics.md` lists them all).

use super::properties::{DATABASE_PROPERTIES, STORE_PROPERTIES};
use super::results::{DatabaseMetrics, StoreMetrics};
use crate::database::database::Database;
use crate::database::stores::StoreEntry;
use crate::error::Result;
use crate::metrics::{Calls, Count, Sheet};
use crate::rocks::Family;
use crate::store::figures::push_figures;
use crate::transaction::Base;
use std::time::Instant;

impl Database {
    /// Returns the current figures.
    pub fn metrics(&self) -> Result<DatabaseMetrics> {
        self.metrics_at(Instant::now())
    }

    fn metrics_at(&self, now: Instant) -> Result<DatabaseMetrics> {
        self.rocks.check_owner()?;
        let base = self.base();
        let mut sheet = Sheet::default();
        // Each window is read once, so that the database and its stores show equal values.
        let commits = self.counts.commits.sample(now);
        let dropped: Vec<Count> = self
            .stores
            .entries
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
            "spilled-bytes",
            self.spilled_bytes_of(&self.stores.tables)?,
            "bytes",
            "Files with the spilled rows of the open transaction",
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
        for (name, unit, help) in DATABASE_PROPERTIES {
            sheet.push(
                name,
                self.rocks
                    .family_property(self.families.metadata, &format!("rocksdb.{name}"))?,
                unit,
                help,
            );
        }
        sheet.push(
            "background-errors",
            self.rocks.background_errors()?,
            "errors",
            "Flushes and compactions that failed since the database was opened",
        );
        self.push_statistics(&mut sheet, now);
        let stores = self
            .stores
            .entries
            .iter()
            .zip(dropped)
            .map(|(entry, dropped)| {
                let mut sheet = Sheet::default();
                push_figures(&entry.counts, &mut sheet, &entry.spec.kind, dropped, now);
                // Stores are committed together, and KIP-1035 defines these figures by store.
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

    fn push_sizes(&self, sheet: &mut Sheet, entry: &StoreEntry, base: &Base) -> Result<()> {
        let tables = entry.store.tables();
        let uncommitted = self.uncommitted_bytes_of(&tables) as u64;
        sheet.push(
            "uncommitted-bytes",
            uncommitted,
            "bytes",
            "Memory of the open transaction for the store",
        );
        sheet.push(
            "spilled-bytes",
            self.spilled_bytes_of(&tables)?,
            "bytes",
            "Files with the spilled rows of the open transaction for the store",
        );
        let rows = entry.store.row_tables();
        let rows: Result<u64> = rows.map(|table| base.approximate_rows(table)).sum();
        sheet.push(
            "rows",
            rows?,
            "rows",
            "About how many rows of data there are, old versions included",
        );
        let families: Vec<Family> = tables
            .iter()
            .filter_map(|table| table.place.family())
            .collect();
        if !families.is_empty() {
            sheet.push(
                "num-files-at-level0",
                self.rocks.level0_files(&families)?,
                "files",
                "Files that no compaction has sorted yet",
            );
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::metrics::FigureValue;
    use crate::{DatabaseOptions, OffsetChange, StoreKind, StoreSpec, Timestamp, WindowPut};
    use std::time::Duration;

    /// Once, the first of two reads of one window moved its marks, so the database and its stores
    /// showed different periods.
    #[test]
    fn rare_reads_show_equal_values_under_every_name() {
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
