//! The versioned store against plain puts, RocksDB's own MultiGet, and Kafka Streams' layout
//! rebuilt (`kafka.rs`).
//!
//! There are 100,000 keys of ten versions each, in ascending order: one version of all keys, then
//! the next. They cover 50 minutes, with a history retention of one hour and segments of five
//! minutes, as in Kafka Streams' defaults.
#![allow(missing_docs, clippy::unwrap_used, reason = "a bench")]

mod expiry;
mod history;
mod kafka;
mod measure;
mod raw;
mod turns;

use history::{History, SEGMENT, VERSIONS, kind};
use holdfast_core::{Applied, Database, Op, StoreKind, Timestamp};
use kafka::Kafka;
use measure::{FILES, HOUR, Settings, TRANSACTION, VALUE, figure, open, timed, transactional_puts};
use rust_rocksdb::DB;
use std::cell::LazyCell;

const KAFKA: &str = "Kafka Streams' layout, rebuilt";

fn main() {
    let settings = Settings::from_env(FILES);
    let history = History::new(settings.rows);
    puts(&settings, &history);
    reads(&settings, &history);
    expiry::expiry(&settings, &history);
    settings.finish();
}

fn puts(settings: &Settings, history: &History) {
    let rows: Vec<(&[u8], &[u8])> = (0..settings.rows)
        .map(|n| (history.key(n), history.data.value(n)))
        .collect();
    let fresh = |load: &dyn Fn(&Database)| {
        let dir = tempfile::tempdir().unwrap();
        let db = open(dir.path(), kind());
        timed(|| load(&db))
    };
    figure(
        settings,
        (
            "versioned put, ascending (100,000 keys, 10 versions each)",
            "plain transactional put of the same keys and values",
            "<= 1.6",
            "time",
        ),
        || fresh(&|db| history.load(db, false)),
        || {
            let dir = tempfile::tempdir().unwrap();
            let db = open(dir.path(), StoreKind::KeyValue);
            let store = db.key_value("s").unwrap();
            timed(|| transactional_puts(&db, &store, &rows))
        },
    );
    for (late, name, reach) in [
        (false, "versioned put, ascending", "<= 0.45"),
        (true, "versioned put, 20 % late", "<= 0.4"),
    ] {
        figure(
            settings,
            (name, KAFKA, reach, "time"),
            || fresh(&|db| history.load_batches(db, late)),
            || {
                let dir = tempfile::tempdir().unwrap();
                let mut kafka = Kafka::open(dir.path(), HOUR, SEGMENT);
                timed(|| history.load_kafka(&mut kafka, late))
            },
        );
    }
}

fn reads(settings: &Settings, history: &History) {
    let dirs: [_; 3] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
    // Made for the first figure that needs it, before its clock starts.
    let db = LazyCell::new(|| {
        let db = open(dirs[0].path(), kind());
        history.load(&db, false);
        db.flush(true).unwrap();
        db.compact("s").unwrap();
        db
    });
    // As many plain keys as there are versions.
    let rocks = LazyCell::new(|| {
        let rocks = raw::open(dirs[1].path(), false);
        raw::put_loop(&rocks, history.data.rows().into_iter());
        compact(&rocks);
        rocks
    });
    let kafka = LazyCell::new(|| {
        let mut kafka = Kafka::open(dirs[2].path(), HOUR, SEGMENT);
        history.load_kafka(&mut kafka, false);
        compact(&kafka.rocks);
        kafka
    });
    let lookups = settings.rows / 5;
    let now = history.time(settings.rows);
    let as_of = |n: usize| history.as_of(n);
    let near_now = |n: usize| (history.key(history.random(n)), now);
    for (want_valid_to, name) in [
        (false, "get as of a time in history, batches of 10,000"),
        (
            true,
            "the same with the end of validity (valid_to) computed for each",
        ),
    ] {
        figure(
            settings,
            (
                name,
                "RocksDB's own sorted MultiGet of as many plain keys",
                "<= 1.4",
                "time",
            ),
            || get_as_of(&db, lookups, want_valid_to, as_of),
            || multi_get(&rocks, history, lookups),
        );
    }
    figure(
        settings,
        (
            "get as of now, batches of 10,000",
            "RocksDB's own sorted MultiGet of as many plain keys",
            "",
            "time",
        ),
        || get_as_of(&db, lookups, false, near_now),
        || multi_get(&rocks, history, lookups),
    );
    figure(
        settings,
        (
            "get as of a time in history, batches of 10,000, sorted",
            KAFKA,
            "<= 0.5",
            "time",
        ),
        || get_as_of(&db, lookups, false, as_of),
        || get_as_of_kafka(&kafka, lookups, as_of),
    );
    figure(
        settings,
        (
            "get as of now, batches of 10,000, sorted",
            KAFKA,
            "",
            "time",
        ),
        || get_as_of(&db, lookups, false, near_now),
        || get_as_of_kafka(&kafka, lookups, near_now),
    );
    figure(
        settings,
        ("all versions of a key", KAFKA, "<= 0.25", "time"),
        || {
            let store = db.versioned("s").unwrap();
            let mut tx = db.begin().unwrap();
            counted(lookups / 10 * VERSIONS, |found| {
                for n in 0..lookups / 10 {
                    let key = history.key(history.random(n));
                    let mut versions = store
                        .versions(&mut tx, key, Timestamp::MIN, Timestamp::MAX, false)
                        .unwrap();
                    versions
                        .for_each(&mut |_, version| {
                            *found += version.value.len();
                            true
                        })
                        .unwrap();
                }
            })
        },
        || {
            let kafka = &*kafka;
            let mut row_key = Vec::new();
            counted(lookups / 10 * VERSIONS, |found| {
                for n in 0..lookups / 10 {
                    kafka.versions(&mut row_key, history.key(history.random(n)), |value| {
                        *found += value.len()
                    });
                }
            })
        },
    );
    let scan = |at: Option<i64>| {
        let store = db.versioned("s").unwrap();
        let mut tx = db.begin().unwrap();
        counted(history.keys, |found| {
            let mut rows = store.scan(&mut tx, at.map(Timestamp)).unwrap();
            rows.for_each(&mut |_, version| {
                *found += version.value.len();
                true
            })
            .unwrap();
        })
    };
    let scan_kafka = || {
        let kafka = &*kafka;
        counted(history.keys, |found| {
            kafka.scan(|value| *found += value.len())
        })
    };
    figure(
        settings,
        ("scan as of now", KAFKA, "<= 1.1", "time"),
        || scan(None),
        scan_kafka,
    );
    figure(
        settings,
        (
            "scan as of the middle of the history",
            "the same as of now",
            "",
            "time",
        ),
        || scan(Some(history.time(settings.rows / 2))),
        || scan(None),
    );
    figure(
        settings,
        (
            "versions_range over all keys, a version",
            "RocksDB's own scan of as many plain keys, a row",
            "",
            "time",
        ),
        || {
            let store = db.versioned("s").unwrap();
            let mut tx = db.begin().unwrap();
            counted(settings.rows, |found| {
                let mut rows = store
                    .versions_range(&mut tx, None, None, Timestamp::MIN, Timestamp::MAX)
                    .unwrap();
                rows.for_each(&mut |_, version| {
                    *found += version.value.len();
                    true
                })
                .unwrap();
            })
        },
        || {
            let rocks = &*rocks;
            counted(settings.rows, |found| {
                let mut rows = rocks.raw_iterator();
                rows.seek_to_first();
                while let Some(value) = rows.value() {
                    *found += value.len();
                    rows.next();
                }
            })
        },
    );
}

fn compact(rocks: &DB) {
    rocks.flush().unwrap();
    rocks.compact_range(None::<&[u8]>, None::<&[u8]>);
}

/// Returns the seconds of `f`, which adds up the bytes of all values.
fn counted(values: usize, f: impl FnOnce(&mut usize)) -> f64 {
    let mut found = 0;
    let took = timed(|| f(&mut found));
    assert_eq!(found, values * VALUE);
    took
}

fn get_as_of<'a>(
    db: &Database,
    lookups: usize,
    valid_to: bool,
    row: impl Fn(usize) -> (&'a [u8], i64),
) -> f64 {
    let store = db.versioned("s").unwrap();
    let mut tx = db.begin().unwrap();
    counted(lookups, |found| {
        for first in (0..lookups).step_by(TRANSACTION) {
            let ops: Vec<Op<'_>> = (first..(first + TRANSACTION).min(lookups))
                .map(|n| {
                    let (key, as_of) = row(n);
                    Op::Get {
                        key,
                        as_of: Timestamp(as_of),
                    }
                })
                .collect();
            store
                .apply_batch(&mut tx, &ops, valid_to, &mut |_, applied| {
                    if let Applied::Get(Some(version)) = applied {
                        *found += version.value.len();
                    }
                })
                .unwrap();
        }
    })
}

fn get_as_of_kafka<'a>(
    kafka: &Kafka,
    lookups: usize,
    row: impl Fn(usize) -> (&'a [u8], i64),
) -> f64 {
    let mut row_key = Vec::new();
    counted(lookups, |found| {
        for first in (0..lookups).step_by(TRANSACTION) {
            let mut wanted: Vec<(&[u8], i64)> = (first..(first + TRANSACTION).min(lookups))
                .map(&row)
                .collect();
            wanted.sort_unstable();
            for (key, at) in wanted {
                kafka.get_as_of(&mut row_key, key, at, |value| *found += value.len());
            }
        }
    })
}

fn multi_get(rocks: &DB, history: &History, lookups: usize) -> f64 {
    counted(lookups, |found| {
        for first in (0..lookups).step_by(TRANSACTION) {
            let mut wanted: Vec<&[u8]> = (first..(first + TRANSACTION).min(lookups))
                .map(|n| history.data.key(history.random(n) % history.rows))
                .collect();
            wanted.sort_unstable();
            for value in rocks
                .batched_multi_get_pinned_batch(wanted, true)
                .unwrap()
                .iter()
            {
                *found += value.unwrap().map_or(0, |v| v.len());
            }
        }
    })
}
