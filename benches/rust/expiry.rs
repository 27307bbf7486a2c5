//! A history of up to twice its retention: how much of the expired versions is left on disk, and
//! what their removal costs the puts.

use crate::history::History;
use crate::{measure, turns};
use holdfast_core::{Database, StoreKind, Timestamp};
use measure::{Settings, TRANSACTION, commit, figure, open, timed};
use std::path::Path;
use std::time::{Duration, Instant};

const SEGMENTS: usize = 24;

/// The shortest segment that a store has by default.
const SEGMENT: Duration = Duration::from_secs(2);

/// Puts the versions of one retention before any of them expires, and more while they expire.
struct Run<'a> {
    history: &'a History,
    retention: i64,
}

impl Run<'_> {
    fn open(&self, path: &Path, retention: i64) -> std::sync::Arc<Database> {
        open(
            path,
            StoreKind::Versioned {
                history_retention: retention,
                segment_interval: self.retention / SEGMENTS as i64,
            },
        )
    }

    /// Puts and commits rows; calls `committed` after each commit with the number of committed
    /// rows.
    fn put(&self, db: &Database, rows: std::ops::Range<usize>, mut committed: impl FnMut(usize)) {
        let store = db.versioned("s").unwrap();
        for first in rows.clone().step_by(TRANSACTION) {
            let mut tx = db.begin().unwrap();
            let end = (first + TRANSACTION).min(rows.end);
            for n in first..end {
                let value = self.history.data.value(n % self.history.rows);
                store
                    .put(
                        &mut tx,
                        self.history.key(n),
                        Some(value),
                        Timestamp(self.history.time(n)),
                    )
                    .unwrap();
            }
            commit(db, tx, end);
            committed(end);
        }
    }

    /// Returns how many segments of expired versions are in files after so many committed rows.
    fn left(&self, path: &Path, committed: usize) -> f64 {
        let (rows, flushed) = self.on_disk(path);
        let segment = (self.history.rows / SEGMENTS) as i64;
        // Reads can return the versions that began after the end of the last expired segment. For
        // each key they can also return the newest version before that.
        let passed = (committed as i64 - self.history.rows as i64).div_euclid(segment) * segment;
        let live = committed as i64
            - (passed - self.history.keys as i64).max(0)
            - (committed - flushed) as i64;
        (rows - live).max(0) as f64 / segment as f64
    }

    /// Returns the number of versions in files, and of rows committed up to the last flushed
    /// commit.
    fn on_disk(&self, path: &Path) -> (i64, usize) {
        let options = rust_rocksdb::Options::default();
        loop {
            // Fails if a compaction removes a file that is about to be opened.
            let Ok(files) = rust_rocksdb::DB::open_cf_for_read_only(
                &options,
                path,
                ["default", "versions:s", "offsets"],
                false,
            ) else {
                continue;
            };
            let rows = files
                .property_int_value_cf(
                    &files.cf_handle("versions:s").unwrap(),
                    "rocksdb.estimate-num-keys",
                )
                .unwrap()
                .unwrap();
            let offsets = files.cf_handle("offsets").unwrap();
            let offset = files
                .iterator_cf(&offsets, rust_rocksdb::IteratorMode::Start)
                .next()
                .unwrap()
                .unwrap()
                .1;
            return (
                rows as i64,
                u64::from_be_bytes(offset[..].try_into().unwrap()) as usize,
            );
        }
    }
}

pub fn expiry(settings: &Settings, history: &History) {
    let run = Run {
        history,
        retention: history.time(history.rows),
    };
    let more = history.rows..2 * history.rows;
    let loaded = |retention: i64| {
        let dir = tempfile::tempdir().unwrap();
        let db = run.open(dir.path(), retention);
        run.put(&db, 0..history.rows, |_| {});
        (dir, db)
    };
    for (pace, name) in [
        (
            SEGMENT,
            "expired versions on disk, in segments' worth (24 a retention), a segment in 2 s",
        ),
        (
            Duration::ZERO,
            "expired versions on disk, in segments' worth, as fast as versions can be put",
        ),
    ] {
        if settings.wants(name) {
            let (dir, db) = loaded(run.retention);
            let mut left = Vec::new();
            let began = Instant::now();
            let rows = history.rows..if pace.is_zero() {
                2 * history.rows
            } else {
                history.rows / 2 * 3
            };
            run.put(&db, rows, |end| {
                left.push(run.left(dir.path(), end));
                let passed = pace
                    .mul_f64((end - history.rows) as f64 * SEGMENTS as f64 / history.rows as f64);
                std::thread::sleep(passed.saturating_sub(began.elapsed()));
            });
            let figure = (name, "nothing (absolute)", "<= 1", "segments");
            turns::publish(figure, &left, "a turn is a commit", settings.of_stores);
        }
    }
    let puts = |retention: i64| {
        let (_dir, db) = loaded(retention);
        timed(|| run.put(&db, more.clone(), |_| {}))
    };
    figure(
        settings,
        (
            "versioned put while history expires",
            "the same put where nothing expires",
            "<= 1.3",
            "time",
        ),
        || puts(run.retention),
        || puts(10 * run.retention),
    );
}
