//! The stores against RocksDB used by hand. Prints a line `FIGURE {…}` a figure (see `benches/report.py`).
//!
//! Every figure is the median over rounds of a ratio of two measurements that follow one another in the same round: the
//! machines are shared, and their speed drifts by a factor of two within minutes, which is why this is not criterion
//! (it takes all samples of one side before it turns to the other).
#![allow(missing_docs, clippy::unwrap_used, reason = "a bench")]

mod raw;

use holdfast_core::{
    Commit, Durability, KeyValueStore, Offset, OffsetChange, Op, StoreKind, StoreSpec, Task, TaskOptions, Timestamp, TopicPartition,
};
use rust_rocksdb::DB;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

const KEY: usize = 16;
const VALUE: usize = 100;
const TRANSACTION: usize = 10_000;
const HOUR: i64 = 3_600_000_000;

struct Settings {
    rows: usize,
    rounds: usize,
    only: Option<String>,
}

fn main() {
    let quick = std::env::var_os("HOLDFAST_BENCH_QUICK").is_some();
    // Cargo hands `--bench` on; any other word picks the figures that have it in their name.
    let only = std::env::args().skip(1).find(|arg| !arg.starts_with("--"));
    let settings = if quick { Settings { rows: 100_000, rounds: 1, only } } else { Settings { rows: 1_000_000, rounds: 5, only } };
    puts(&settings);
    read_modify_write(&settings);
    reads(&settings);
    versioned_puts(&settings);
    versioned_reads(&settings);
}

/// Runs `ours` and `theirs` in turns and prints the median of `of(ours, theirs)`, both in seconds.
fn figure(
    settings: &Settings,
    (measured, against, reach, unit): (&str, &str, &str, &str),
    mut ours: impl FnMut() -> f64,
    mut theirs: impl FnMut() -> f64,
) {
    if settings.only.as_ref().is_some_and(|word| !measured.contains(word.as_str())) {
        return;
    }
    let mut rounds: Vec<(f64, f64, f64)> = Vec::new();
    for round in 0..settings.rounds {
        // The one that comes second finds the disk busy with the first one's files: take turns.
        let (a, b) = if round % 2 == 0 {
            let a = ours();
            (a, theirs())
        } else {
            let b = theirs();
            (ours(), b)
        };
        rounds.push((if unit == "throughput" { b / a } else { a / b }, a, b));
    }
    rounds.sort_by(|x, y| x.0.total_cmp(&y.0));
    let (ratio, a, b) = rounds[rounds.len() / 2];
    println!(
        "FIGURE {}",
        serde_json::json!({
            "measured": measured, "against": against, "ratio": ratio, "reach": reach, "unit": unit,
            "note": format!("{a:.3} s against {b:.3} s; {} rounds: {:.2} to {:.2}", rounds.len(), rounds[0].0, rounds[rounds.len() - 1].0),
        })
    );
}

/// Seconds on the clock; with `HOLDFAST_BENCH_CPU` of this thread on a processor, which other load changes less.
fn timed(f: impl FnOnce()) -> f64 {
    if std::env::var_os("HOLDFAST_BENCH_CPU").is_none() {
        let start = Instant::now();
        f();
        return start.elapsed().as_secs_f64();
    }
    let busy = || {
        let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        stat.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
    };
    let start = busy();
    f();
    busy() - start
}

/// Incompressible bytes, the same for each seed.
fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    (0..len.div_ceil(8)).flat_map(|_| next().to_le_bytes()).take(len).collect()
}

struct Data {
    keys: Vec<u8>,
    values: Vec<u8>,
}

impl Data {
    fn new(rows: usize) -> Self {
        Self { keys: bytes(1, rows * KEY), values: bytes(2, rows * VALUE) }
    }

    fn key(&self, n: usize) -> &[u8] {
        &self.keys[n * KEY..][..KEY]
    }

    fn value(&self, n: usize) -> &[u8] {
        &self.values[n * VALUE..][..VALUE]
    }

    fn rows(&self) -> Vec<(&[u8], &[u8])> {
        self.keys.chunks(KEY).zip(self.values.chunks(VALUE)).collect()
    }
}

fn open(path: &Path, kind: StoreKind) -> Arc<Task> {
    // `HOLDFAST_BENCH_OPTIONS=name=value;…` tries RocksDB options out without a new build.
    let tried = std::env::var("HOLDFAST_BENCH_OPTIONS").unwrap_or_default();
    let rocksdb_options = tried.split(';').filter_map(|pair| pair.split_once('=')).map(|(n, v)| (n.into(), v.into())).collect();
    let options = TaskOptions { durability: Durability::Changelog, rocksdb_options, ..TaskOptions::default() };
    Task::open(path, &[StoreSpec { name: "s".into(), kind }], options).unwrap()
}

fn versioned_kind() -> StoreKind {
    StoreKind::Versioned { history_retention: 365 * 24 * HOUR, segment_interval: 15 * 24 * HOUR }
}

fn offsets(n: i64) -> OffsetChange {
    OffsetChange::Set(vec![(TopicPartition { topic: "log".into(), partition: 0 }, Some(Offset(n)))])
}

fn commit(task: &Task, tx: holdfast_core::Transaction, n: usize) {
    task.commit_transaction(tx, Commit { offsets: offsets(n as i64), properties: Vec::new() }).unwrap();
}

fn transactional_puts(task: &Task, store: &KeyValueStore, rows: &[(&[u8], &[u8])]) {
    for (n, chunk) in rows.chunks(TRANSACTION).enumerate() {
        let mut tx = task.begin().unwrap();
        for (key, value) in chunk {
            store.put(&mut tx, key, Some(value));
        }
        commit(task, tx, n);
    }
}

fn puts(settings: &Settings) {
    let data = Data::new(settings.rows);
    let rows = data.rows();
    let ours = || {
        let dir = tempfile::tempdir().unwrap();
        let task = open(dir.path(), StoreKind::KeyValue);
        let store = task.key_value("s").unwrap();
        timed(|| transactional_puts(&task, &store, &rows))
    };
    figure(
        settings,
        (
            "transaction of 10,000 random puts, staged and committed with offsets",
            "the same puts to RocksDB one by one, WAL off",
            ">= 2.2",
            "throughput",
        ),
        ours,
        || {
            let dir = tempfile::tempdir().unwrap();
            let db = raw::open(dir.path(), false);
            timed(|| raw::put_loop(&db, rows.iter().copied()))
        },
    );
    figure(
        settings,
        (
            "transaction of 10,000 random puts, staged and committed with offsets",
            "one sorted, hinted raw WriteBatch (the floor)",
            "<= 1.15",
            "time",
        ),
        ours,
        || {
            let dir = tempfile::tempdir().unwrap();
            let db = raw::open(dir.path(), true);
            timed(|| raw::sorted_batches(&db, &rows, TRANSACTION))
        },
    );
}

fn read_modify_write(settings: &Settings) {
    let keys = settings.rows / 10;
    let data = Data::new(keys);
    let order = bytes(3, settings.rows * 8);
    let pick = |n: usize| u64::from_le_bytes(order[n * 8..][..8].try_into().unwrap()) as usize % keys;
    let rows = data.rows();
    let changed = |value: Option<&[u8]>, into: &mut Vec<u8>| {
        into.clear();
        into.extend_from_slice(value.unwrap_or(&[0; VALUE]));
        into[0] = into[0].wrapping_add(1);
    };
    figure(
        settings,
        ("read-modify-write over 100,000 keys, reads in batches of 1,000", "RocksDB get + put one by one", ">= 1.3", "throughput"),
        || {
            let dir = tempfile::tempdir().unwrap();
            let task = open(dir.path(), StoreKind::KeyValue);
            let store = task.key_value("s").unwrap();
            transactional_puts(&task, &store, &rows);
            timed(|| {
                for first in (0..settings.rows).step_by(TRANSACTION) {
                    let mut tx = task.begin().unwrap();
                    for batch in (first..first + TRANSACTION).step_by(1000) {
                        let wanted: Vec<&[u8]> = (batch..batch + 1000).map(|n| data.key(pick(n))).collect();
                        let mut values = vec![Vec::new(); wanted.len()];
                        store.get_batch(&mut tx, &wanted, |n, value| changed(value, &mut values[n])).unwrap();
                        for (key, value) in wanted.iter().zip(&values) {
                            store.put(&mut tx, key, Some(value));
                        }
                    }
                    commit(&task, tx, first);
                }
            })
        },
        || {
            let dir = tempfile::tempdir().unwrap();
            let db = raw::open(dir.path(), false);
            raw::put_loop(&db, rows.iter().copied());
            let options = raw::no_wal();
            let mut value = Vec::new();
            timed(|| {
                for n in 0..settings.rows {
                    let key = data.key(pick(n));
                    changed(db.get_pinned(key).unwrap().as_deref(), &mut value);
                    db.put_opt(key, &value, &options).unwrap();
                }
            })
        },
    );
}

fn reads(settings: &Settings) {
    let data = Data::new(settings.rows);
    let staged = bytes(9, TRANSACTION * KEY);
    let order = bytes(4, settings.rows * 8);
    let pick = |n: usize| u64::from_le_bytes(order[n * 8..][..8].try_into().unwrap()) as usize % settings.rows;
    let rows = data.rows();
    let (dir, raw_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let task = open(dir.path(), StoreKind::KeyValue);
    let store = task.key_value("s").unwrap();
    transactional_puts(&task, &store, &rows);
    task.flush(true).unwrap();
    task.compact("s").unwrap();
    let db = raw::open(raw_dir.path(), false);
    raw::put_loop(&db, rows.iter().copied());
    db.flush().unwrap();
    db.compact_range(None::<&[u8]>, None::<&[u8]>);
    let lookups = settings.rows / 5;
    figure(
        settings,
        ("read of keys not in the transaction (10,000 others staged)", "plain RocksDB get", "<= 1.05", "time"),
        || {
            let mut tx = task.begin().unwrap();
            for key in staged.chunks(KEY) {
                store.put(&mut tx, key, Some(&[1; VALUE]));
            }
            let mut found = 0usize;
            let took = timed(|| {
                for n in 0..lookups {
                    found += store.get(&mut tx, data.key(pick(n)), |value| value.map_or(0, |v| v.len())).unwrap();
                }
            });
            assert_eq!(found, lookups * VALUE);
            took
        },
        || {
            let mut found = 0usize;
            let took = timed(|| {
                for n in 0..lookups {
                    found += db.get_pinned(data.key(pick(n))).unwrap().map_or(0, |v| v.len());
                }
            });
            assert_eq!(found, lookups * VALUE);
            took
        },
    );
}

/// Versions of `settings.rows / 10` keys, ten each, ascending in time: one version of every key, then the next.
fn version_puts(task: &Task, data: &Data, rows: usize) {
    let keys = rows / 10;
    let store = task.versioned("s").unwrap();
    for first in (0..rows).step_by(TRANSACTION) {
        let mut tx = task.begin().unwrap();
        for n in first..(first + TRANSACTION).min(rows) {
            store.put(&mut tx, data.key(n % keys), Some(data.value(n)), Timestamp(n as i64)).unwrap();
        }
        commit(task, tx, first);
    }
}

fn versioned_puts(settings: &Settings) {
    let data = Data::new(settings.rows);
    let keys = settings.rows / 10;
    let rows: Vec<(&[u8], &[u8])> = (0..settings.rows).map(|n| (data.key(n % keys), data.value(n))).collect();
    figure(
        settings,
        (
            "versioned put, ascending (100,000 keys, 10 versions each)",
            "plain transactional put of the same keys and values",
            "<= 1.6",
            "time",
        ),
        || {
            let dir = tempfile::tempdir().unwrap();
            let task = open(dir.path(), versioned_kind());
            timed(|| version_puts(&task, &data, settings.rows))
        },
        || {
            let dir = tempfile::tempdir().unwrap();
            let task = open(dir.path(), StoreKind::KeyValue);
            let store = task.key_value("s").unwrap();
            timed(|| transactional_puts(&task, &store, &rows))
        },
    );
}

fn versioned_reads(settings: &Settings) {
    let data = Data::new(settings.rows);
    let keys = settings.rows / 10;
    let (dir, raw_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let task = open(dir.path(), versioned_kind());
    version_puts(&task, &data, settings.rows);
    task.flush(true).unwrap();
    task.compact("s").unwrap();
    // As many plain keys as there are versions.
    let db: DB = raw::open(raw_dir.path(), false);
    raw::put_loop(&db, data.rows().into_iter());
    db.flush().unwrap();
    db.compact_range(None::<&[u8]>, None::<&[u8]>);
    let order = bytes(5, settings.rows * 8);
    let pick = |n: usize| u64::from_le_bytes(order[n * 8..][..8].try_into().unwrap()) as usize;
    let store = task.versioned("s").unwrap();
    let lookups = settings.rows / 5;
    for (want_valid_to, name) in [
        (false, "get as of a time in history, batches of 10,000"),
        (true, "the same with the end of validity (valid_to) computed for each"),
    ] {
        figure(
            settings,
            (name, "RocksDB's own sorted MultiGet of as many plain keys", "<= 1.4", "time"),
            || {
                let mut tx = task.begin().unwrap();
                let mut found = 0usize;
                let took = timed(|| {
                    for first in (0..lookups).step_by(TRANSACTION) {
                        let ops: Vec<Op<'_>> = (first..first + TRANSACTION)
                            .map(|n| {
                                let key = pick(n) % keys;
                                // A moment behind one of the first nine versions of the key.
                                let version = (pick(n) / keys) % 9;
                                Op::Get { key: data.key(key), as_of: Timestamp((version * keys + key) as i64 + keys as i64 / 2) }
                            })
                            .collect();
                        store
                            .apply_batch(&mut tx, &ops, want_valid_to, &mut |_, applied| {
                                if let holdfast_core::Applied::Get(Some(version)) = applied {
                                    found += version.value.len();
                                }
                            })
                            .unwrap();
                    }
                });
                assert_eq!(found, lookups * VALUE);
                took
            },
            || {
                let mut found = 0usize;
                let took = timed(|| {
                    for first in (0..lookups).step_by(TRANSACTION) {
                        let mut wanted: Vec<&[u8]> = (first..first + TRANSACTION).map(|n| data.key(pick(n) % settings.rows)).collect();
                        wanted.sort_unstable();
                        for value in db.batched_multi_get_pinned_batch(wanted, true).unwrap().iter() {
                            found += value.unwrap().map_or(0, |v| v.len());
                        }
                    }
                });
                assert_eq!(found, lookups * VALUE);
                took
            },
        );
    }
}
