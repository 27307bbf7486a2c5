//! The memory of batch reads and range deletes: a read holds few values at a time, and a range
//! delete holds no list of keys beside its staged deletes.
//!
//! The tests measure the process, so they run one after another.
#![allow(clippy::unwrap_used, reason = "a test")]

use holdfast_core::column::Places;
use holdfast_core::rocks::{SharedMemory, configure_shared_memory};
use holdfast_core::{
    Database, DatabaseOptions, Durability, ErrorKind, NO_TIMESTAMP, OffsetChange, Stamped,
    StoreKind, StoreSpec, Timestamp, WindowPut,
};
use parking_lot::{Mutex, MutexGuard};
use std::path::Path;
use std::sync::Arc;

const MIB: usize = 1 << 20;

fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock();
    configure_shared_memory(SharedMemory {
        block_cache: 4 * MIB,
        write_buffers: 16 * MIB,
    });
    turn
}

fn status(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

/// The most memory that the process used during `work`, above what it used before, in MiB.
fn growth(work: impl FnOnce()) -> usize {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = status("VmRSS");
    work();
    status("VmHWM").saturating_sub(before) / MIB
}

fn open(path: &Path, uncommitted_max_bytes: i64) -> Arc<Database> {
    let window = StoreKind::Window {
        retention: 1_000_000,
        window_size: 10,
        retain_duplicates: false,
        timestamped: false,
    };
    let versioned = StoreKind::Versioned {
        history_retention: 1_000_000,
        segment_interval: 1_000,
    };
    let stores = [
        StoreSpec::new("kv", StoreKind::KeyValue),
        StoreSpec::new("rates", versioned),
        StoreSpec::new("windows", window),
        StoreSpec {
            persistent: false,
            ..StoreSpec::new("memory", StoreKind::KeyValue)
        },
    ];
    let options = DatabaseOptions {
        durability: Durability::Changelog,
        uncommitted_max_bytes,
        ..DatabaseOptions::default()
    };
    Database::open(path, &stores, options).unwrap()
}

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

fn value(n: u32) -> Vec<u8> {
    // Not compressible.
    let mut state = u64::from(n) + 1;
    let mut value = vec![0; MIB];
    for word in value.chunks_exact_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_ne_bytes());
    }
    value
}

/// A regression test: the value was copied for each of the 3,000 requests before the limit of the
/// column was checked.
#[test]
fn large_value_that_is_requested_often_is_read_and_held_once() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path(), 64 << 20);
    let store = db.key_value("kv").unwrap();
    let keys = [&b"large"[..]; 3_000];
    let ask = |place: &str| {
        let mut tx = db.transaction().unwrap();
        let grown = growth(|| {
            let mut places = Places::new(keys.len());
            store
                .get_batch(&mut tx, &keys, |row, value| {
                    places.put(
                        row,
                        value.map(|value| Stamped {
                            value,
                            timestamp: NO_TIMESTAMP,
                        }),
                    );
                })
                .unwrap();
            let error = places.finish().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidValue, "{error}");
        });
        assert!(grown < 32, "{place}: {grown} MiB");
    };
    let mut tx = db.transaction().unwrap();
    store.put(&mut tx, b"large", Some(&value(1))).unwrap();
    drop(tx);
    ask("staged");
    db.commit(OffsetChange::Keep).unwrap();
    ask("in a memtable");
    db.flush(true).unwrap();
    ask("in a file");
}

#[test]
fn batch_read_of_many_large_values_holds_few_of_them() {
    let _turn = turn();
    const KEYS: u32 = 200;
    // With the limit of 8 MiB, few of the values of 1 MiB fit into the transaction's memory. The
    // others are spilled.
    for (place, limit) in [("in files", -1), ("spilled", 8 << 20)] {
        let dir = tempfile::tempdir().unwrap();
        let db = open(dir.path(), limit);
        let (kv, rates) = (db.key_value("kv").unwrap(), db.versioned("rates").unwrap());
        let windows = db.window("windows").unwrap();
        for n in 0..KEYS {
            let (key, value) = (key(n), value(n));
            db.write(|tx| {
                kv.put(tx, &key, Some(&value))?;
                rates.put(tx, &key, Some(&value), Timestamp(10))?;
                windows.put(
                    tx,
                    WindowPut {
                        key: &key,
                        value: Some(&value),
                        start: Timestamp(10),
                        timestamp: None,
                    },
                )
            })
            .unwrap();
            if limit < 0 {
                db.commit(OffsetChange::Keep).unwrap();
            }
        }
        if limit < 0 {
            db.flush(true).unwrap();
        }
        let keys: Vec<[u8; 4]> = (0..KEYS).map(key).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let times = vec![Timestamp(10); keys.len()];
        let mut tx = db.transaction().unwrap();
        let mut found = [0; 3];
        let right = |row: usize, value: &[u8]| u32::from(value == self::value(row as u32));
        let grown = growth(|| {
            let mut visit = |row: usize, value: Option<&[u8]>| {
                found[0] += value.map_or(0, |value| right(row, value));
            };
            kv.get_batch(&mut tx, &keys, &mut visit).unwrap();
        });
        assert!(grown < 130, "{place}: key-value {grown} MiB");
        let grown = growth(|| {
            rates
                .get_batch(&mut tx, &keys, Some(&times), &mut |row, version| {
                    found[1] += version.map_or(0, |version| right(row, version.value));
                })
                .unwrap();
        });
        assert!(grown < 130, "{place}: versioned {grown} MiB");
        let grown = growth(|| {
            windows
                .fetch_ranges(&mut tx, &keys, &times, &times, &mut |row,
                                                                    _,
                                                                    window: Stamped<
                    '_,
                >| {
                    found[2] += right(row, window.value)
                })
                .unwrap();
        });
        assert!(grown < 130, "{place}: windows {grown} MiB");
        assert_eq!(found, [KEYS; 3], "{place}");
    }
}

#[test]
fn range_delete_in_memory_holds_no_list_of_the_keys() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path(), -1);
    let store = db.key_value("memory").unwrap();
    let long = |n: u32| [[7; 96].as_slice(), &key(n)].concat();
    for n in 0..300_000 {
        db.write(|tx| store.put(tx, &long(n), Some(b""))).unwrap();
    }
    db.commit(OffsetChange::Keep).unwrap();
    let mut tx = db.begin().unwrap();
    let grown = growth(|| store.delete_range(&mut tx, None, None).unwrap());
    let staged = tx.uncommitted_bytes() / MIB;
    assert!(grown < staged + 20, "{grown} MiB, {staged} MiB are staged");
    assert!(staged > 40);
}

/// The changes of a range delete are a delete of each row, and these exceed the transaction's
/// memory.
#[test]
fn changes_of_a_range_delete_spill() {
    let _turn = turn();
    const LIMIT: i64 = 1 << 20;
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path(), LIMIT);
    let store = db.key_value("kv").unwrap();
    for n in 0..100_000 {
        db.write(|tx| store.put(tx, &key(n), Some(b"v"))).unwrap();
    }
    db.commit(OffsetChange::Keep).unwrap();
    let mut tx = db.begin().unwrap();
    store
        .delete_range(&mut tx, Some(&key(10)), Some(&key(99_989)))
        .unwrap();
    store.put(&mut tx, &key(20), Some(b"new")).unwrap();
    for round in 0..2 {
        let mut next = 10;
        db.for_each_change("kv", &mut tx, &mut |row| {
            assert_eq!((row.key, row.value.is_some()), (&key(next)[..], next == 20));
            next += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(next, 99_990, "round {round}");
    }
    let most = tx.peak_bytes() as i64;
    assert!(most < LIMIT + (128 << 10), "{most}");
    db.commit_transaction(tx, holdfast_core::Commit::default())
        .unwrap();
    let mut rows = 0;
    store
        .range(&mut db.begin().unwrap(), None, None, false)
        .unwrap()
        .for_each(&mut |_, _| {
            rows += 1;
            holdfast_core::Step::Next
        })
        .unwrap();
    assert_eq!(rows, 21);
}

/// A state host deletes a range key by key, and passes each key to the transaction as it is read.
/// The rows of a former plain store are in the same scan.
#[test]
fn keys_of_a_timestamped_scan_are_read_in_small_parts() {
    let _turn = turn();
    const KEYS: u32 = 300_000;
    let long = |n: u32| [[7; 96].as_slice(), &key(n)].concat();
    for first in [StoreKind::TimestampedKeyValue, StoreKind::KeyValue] {
        let dir = tempfile::tempdir().unwrap();
        let open = |kind: &StoreKind| {
            let options = DatabaseOptions {
                durability: Durability::Changelog,
                uncommitted_max_bytes: -1,
                ..DatabaseOptions::default()
            };
            let stores = [StoreSpec::new("kv", kind.clone())];
            Database::open(dir.path(), &stores, options).unwrap()
        };
        let db = open(&first);
        for n in 0..KEYS {
            let key = long(n);
            db.write(|tx| match db.key_value("kv") {
                Ok(plain) => plain.put(tx, &key, Some(b"")),
                Err(_) => {
                    let stamped = db.timestamped_key_value("kv")?;
                    stamped.put(tx, &key, Some(b""), Timestamp(1))
                }
            })
            .unwrap();
        }
        db.commit(OffsetChange::Keep).unwrap();
        db.close().unwrap();
        drop(db);
        let db = open(&StoreKind::TimestampedKeyValue);
        let store = db.timestamped_key_value("kv").unwrap();
        let mut tx = db.begin().unwrap();
        let (mut found, expected) = (0, key);
        let grown = growth(|| {
            let mut scan = store.range(&mut tx, None, None, false).unwrap();
            scan.each_key(&mut |key| {
                assert!(key.ends_with(&expected(found)));
                found += 1;
                Ok(())
            })
            .unwrap();
        });
        assert_eq!(found, KEYS);
        // All keys together have 29 MiB.
        assert!(grown < 16, "{first:?}: {grown} MiB");
    }
}
