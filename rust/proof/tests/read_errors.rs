//! A disk that refuses one read during a call: the call returns an error or a complete answer. A
//! later seek clears a cursor's error; even then the answer must not lack rows.

use holdfast_core::rocks::{SharedMemory, configure_shared_memory};
use holdfast_core::{
    Database, DatabaseOptions, Durability, ErrorKind, OffsetChange, Op, Result, Step, StoreKind,
    StoreSpec, Timestamp, Transaction, WindowPut,
};
use holdfast_proof::{Faults, Operation, directory, runner};
use std::fmt::Write;

const KEYS: u8 = 24;
/// More versions than a scan steps over before it seeks.
const VERSIONS: i64 = 60;
/// The value of every row. It is so long that a few rows fill a block.
const VALUE: [u8; 700] = [7; 700];

/// Makes every read come from the disk. A small cache is not enough: beside pinned indexes the
/// clock cache ends its search for an entry to evict early.
const UNCACHED: &str = "{no_block_cache=true;cache_index_and_filter_blocks=false}";

fn specs() -> [StoreSpec; 3] {
    [
        StoreSpec::new("plain", StoreKind::KeyValue),
        StoreSpec::new(
            "versions",
            StoreKind::Versioned {
                history_retention: 1_000,
                segment_interval: 100,
            },
        ),
        StoreSpec::new(
            "windows",
            StoreKind::Window {
                retention: 1_000,
                window_size: 5,
                retain_duplicates: false,
                timestamped: false,
            },
        ),
    ]
}

/// Writes every second key of all stores. If these are the odd keys, also deletes some key-value
/// rows of the even ones.
fn write(db: &Database, parity: u8) {
    let (plain, versions, windows) = (
        db.key_value("plain"),
        db.versioned("versions"),
        db.window("windows"),
    );
    let (plain, versions, windows) = (
        plain.expect("a store"),
        versions.expect("a store"),
        windows.expect("a store"),
    );
    let mut tx = db.transaction().expect("a transaction");
    for key in (0..KEYS).filter(|key| key % 2 == parity) {
        let name = [b'k', key];
        for n in 0..VERSIONS {
            let row = [&name[..], &[n as u8]].concat();
            plain.put(&mut tx, &row, Some(&VALUE)).expect("a put");
            let ops = [Op::Put {
                key: &name,
                value: Some(&VALUE),
                timestamp: Timestamp(n * 2 + i64::from(parity)),
            }];
            versions
                .apply_batch(&mut tx, &ops, true, &mut |_, _| {})
                .expect("a put");
            let put = WindowPut {
                key: &name,
                value: Some(&VALUE),
                start: Timestamp(n),
                timestamp: None,
            };
            windows.put(&mut tx, put).expect("a put");
        }
        if parity == 1 && key % 3 == 0 {
            // Some committed rows of the preceding key.
            plain
                .delete_range(
                    &mut tx,
                    Some(&[b'k', key - 1, 10]),
                    Some(&[b'k', key - 1, 50]),
                )
                .expect("a deletion");
        }
    }
}

type Read = fn(&Database, &mut Transaction) -> Result<String>;

fn plain_rows(db: &Database, tx: &mut Transaction, reverse: bool) -> Result<String> {
    let mut rows = String::new();
    db.key_value("plain")?
        .range(tx, None, None, reverse)?
        .for_each(&mut |key, value| {
            let _ = write!(rows, "{key:?} {} ", value.len());
            Step::Next
        })?;
    Ok(rows)
}

fn version_rows(mut scan: holdfast_core::VersionScan) -> Result<String> {
    let mut rows = String::new();
    scan.for_each(&mut |key, v| {
        let _ = write!(
            rows,
            "{key:?} {} {:?} {:?} ",
            v.value.len(),
            v.timestamp,
            v.valid_to
        );
        true
    })?;
    Ok(rows)
}

const READS: [(&str, Read); 9] = [
    ("all rows", |db, tx| plain_rows(db, tx, false)),
    ("all rows backward", |db, tx| plain_rows(db, tx, true)),
    ("gets", |db, tx| {
        let mut rows = String::new();
        for key in 0..KEYS {
            db.key_value("plain")?.get(tx, &[b'k', key, 20], |value| {
                let _ = write!(rows, "{:?} ", value.map(<[u8]>::len));
            })?;
        }
        Ok(rows)
    }),
    ("gets in a batch", |db, tx| {
        let keys: Vec<_> = (0..KEYS).map(|key| [b'k', key, 20]).collect();
        let keys: Vec<_> = keys.iter().map(|key| key.as_slice()).collect();
        let mut rows = vec![None; keys.len()];
        db.key_value("plain")?
            .get_batch(tx, &keys, |n, value| rows[n] = value.map(<[u8]>::len))?;
        Ok(format!("{rows:?}"))
    }),
    // Reads one version of each key, and then seeks to the next key.
    ("a scan as of a moment", |db, tx| {
        version_rows(db.versioned("versions")?.scan(tx, Some(Timestamp(90)))?)
    }),
    ("all versions", |db, tx| {
        version_rows(db.versioned("versions")?.versions_range(
            tx,
            None,
            None,
            Timestamp(0),
            Timestamp(1_000),
        )?)
    }),
    // Near the first version, so that the read steps over many newer ones.
    ("gets as of a moment", |db, tx| {
        let mut rows = String::new();
        for key in 0..KEYS {
            for at in [1, 6, 7] {
                db.versioned("versions")?
                    .get_as_of(tx, &[b'k', key], Timestamp(at), |found| {
                        let _ = write!(
                            rows,
                            "{:?} ",
                            found.map(|v| (v.value.len(), v.timestamp, v.valid_to))
                        );
                    })?;
            }
        }
        Ok(rows)
    }),
    ("where a key changes", |db, tx| {
        let mut rows = String::new();
        let table = db.versioned("versions")?;
        for key in 0..KEYS {
            let _ = write!(
                rows,
                "{:?} ",
                table.next_change(tx, &[b'k', key], Timestamp(2))?
            );
            let _ = write!(
                rows,
                "{:?} ",
                table.last_change(tx, &[b'k', key], Timestamp(2))?
            );
        }
        Ok(rows)
    }),
    // A few keys of many: seeks skip the others.
    ("windows of some keys", |db, tx| {
        let mut rows = String::new();
        let (low, high) = ([b'k', 9], [b'k', 12]);
        let mut scan = db.window("windows")?.fetch_range(
            tx,
            Some(&low),
            Some(&high),
            Timestamp(5),
            Timestamp(50),
            false,
        )?;
        scan.for_each(&mut |window, found| {
            let _ = write!(
                rows,
                "{:?} {:?} {} ",
                window.key,
                window.start,
                found.value.len()
            );
            true
        })?;
        Ok(rows)
    }),
];

/// Refuses the reads of each call, one at a time.
fn refuse_each(spills_at: i64) {
    let faults = Faults::default();
    let mut options = DatabaseOptions {
        environment: Some(faults.environment()),
        ..runner::options(Durability::Changelog)
    };
    options.uncommitted_max_bytes = spills_at;
    // Only the test reads.
    options
        .rocksdb_options
        .push(("disable_auto_compactions".into(), "true".into()));
    // Equal values would compress to almost nothing.
    options
        .rocksdb_options
        .push(("compression".into(), "kNoCompression".into()));
    options
        .rocksdb_options
        .push(("block_based_table_factory".into(), UNCACHED.into()));
    let dir = directory().expect("a temporary directory");
    let db =
        Database::open(&dir.path().join("database"), &specs(), options).expect("a new database");
    write(&db, 0);
    db.commit(OffsetChange::Keep).expect("a commit");
    db.flush(true).expect("a flush");
    write(&db, 1);
    assert_eq!(
        db.transaction().expect("a transaction").has_spilled(),
        spills_at >= 0
    );
    for (what, read) in READS {
        let mut tx = db.transaction().expect("a transaction").reader();
        let whole = read(&db, &mut tx).unwrap_or_else(|e| panic!("{what}: {e}"));
        let mut refused = 0;
        let (mut n, mut attempts) = (0, 0);
        loop {
            // The cache retains a batch's blocks until others are read.
            db.key_value("plain")
                .and_then(|store| store.get(&mut tx, b"k\0\0", |_| ()))
                .expect("a read");
            let before = faults.failed();
            faults.fail(Operation::Read, n, false);
            // Half of the reads continue with cursors that have failed before.
            attempts += 1;
            if attempts % 2 == 0 {
                tx = db.transaction().expect("a transaction").reader();
            }
            let found = read(&db, &mut tx);
            faults.heal();
            match found {
                Ok(found) => assert!(
                    found == whole,
                    "{what}, read {n} refused, spilled: {}: a wrong answer",
                    spills_at >= 0
                ),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Io, "{what}, read {n}: {error}");
                    refused += 1;
                }
            }
            if faults.failed() == before {
                break;
            }
            // Each of the first reads, and some of many thousands.
            n += 1 + n / 16;
        }
        println!("{what}, spilled: {}: {refused} errors", spills_at >= 0);
        assert!(refused > 0, "{what}: the disk was not read");
        let again = read(&db, &mut tx)
            .unwrap_or_else(|e| panic!("{what}, after the disk is repaired: {e}"));
        assert!(
            again == whole,
            "{what}, after the disk is repaired: a wrong answer"
        );
    }
}

/// Makes the reads of a spilled transaction's rows come from the disk, too. These rows have no
/// pinned indexes, so a small cache is enough.
fn without_cache() {
    configure_shared_memory(SharedMemory {
        block_cache: 1,
        ..SharedMemory::default()
    });
}

/// Once, the first move of a resumed scan failed, and its next seek cleared the error.
#[test]
fn refused_read_of_a_resumed_scan_over_spilled_rows_is_an_error() {
    let long = vec![7; 20_000];
    without_cache();
    let faults = Faults::default();
    let mut options = DatabaseOptions {
        environment: Some(faults.environment()),
        ..DatabaseOptions::default()
    };
    for (name, value) in [
        ("disable_auto_compactions", "true"),
        ("compression", "kNoCompression"),
        ("block_based_table_factory", UNCACHED),
    ] {
        options.rocksdb_options.push((name.into(), value.into()));
    }
    let dir = directory().expect("a temporary directory");
    let db =
        Database::open(&dir.path().join("database"), &specs(), options).expect("a new database");
    let versions = db.versioned("versions").expect("a store");
    let put = |key: &[u8], times: std::ops::RangeInclusive<i64>| {
        let mut tx = db.transaction().expect("a transaction");
        for time in times {
            versions
                .put(&mut tx, key, Some(&long), Timestamp(time))
                .expect("a put");
        }
    };
    put(b"a", 0..=20);
    put(b"b", 0..=0);
    db.commit(OffsetChange::Keep).expect("a commit");
    db.flush(true).expect("a flush");
    put(b"c", 0..=20);
    let mut tx = db.transaction().expect("a transaction");
    tx.spill().expect("a spill");
    let mut refused = 0;
    for n in 0.. {
        let mut scan = versions.scan(&mut tx, Some(Timestamp(19))).expect("a scan");
        let mut keys = Vec::new();
        scan.for_each(&mut |key, _| {
            keys.push(key.to_vec());
            false
        })
        .expect("the key a");
        let before = faults.failed();
        faults.fail(Operation::Read, n, false);
        let resumed = scan.for_each(&mut |key, _| {
            keys.push(key.to_vec());
            true
        });
        faults.heal();
        match resumed {
            Ok(_) => assert_eq!(keys, [b"a", b"b", b"c"], "read {n} refused: a wrong answer"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Io, "read {n}: {error}");
                refused += 1;
            }
        }
        if faults.failed() == before {
            break;
        }
    }
    assert!(refused > 0, "the disk was not read");
}

#[test]
fn refused_read_is_an_error_and_never_a_missing_row() {
    without_cache();
    refuse_each(-1);
    refuse_each(100_000);
}
