//! The files and rows of a database.

use holdfast_core::rocks::{RocksDb, RocksOptions};
use holdfast_core::table::{FamilyKind, FamilySpec};
use holdfast_core::transaction::Batch;
use holdfast_core::{
    Database, DatabaseOptions, Durability, SessionQuery, Step, StoreKind, StoreSpec, Timestamp,
    read_offsets,
};
use holdfast_proof::directory;

use crate::feed::{feed, sealed, times};

#[test]
fn reading_text_files_of_offsets_never_panics() {
    let dir = directory().expect("a temporary directory");
    let file = dir.path().join(".checkpoint");
    feed("offsets", times(5_000), |bytes| {
        std::fs::write(&file, bytes).expect("a file");
        drop(read_offsets(&file));
    });
}

#[test]
fn opening_with_a_damaged_commit_file_never_panics() {
    let options = DatabaseOptions {
        durability: Durability::Changelog,
        ..DatabaseOptions::default()
    };
    feed("commit", times(60), |bytes| {
        let dir = directory().expect("a temporary directory");
        Database::open(dir.path(), &specs(), options.clone())
            .and_then(|db| db.close())
            .expect("a new database");
        let folder = dir.path().join("+commit");
        std::fs::create_dir(&folder).expect("a directory");
        // With the right checksum; without it nothing else is read.
        std::fs::write(folder.join("COMMIT"), sealed(bytes)).expect("a file");
        std::fs::write(folder.join("0-0.sst"), b"rows").expect("a file");
        if let Ok(db) = Database::open(dir.path(), &specs(), options.clone()) {
            let _ = read_all(&db);
        }
    });
}

/// The families of a database with every kind of store.
const FAMILIES: [(FamilyKind, &str); 10] = [
    (FamilyKind::Metadata, ""),
    (FamilyKind::Offsets, ""),
    (FamilyKind::KeyValue, "plain"),
    (FamilyKind::Versions, "versions"),
    (FamilyKind::Latest, "versions"),
    (FamilyKind::Stamped, "stamped"),
    (FamilyKind::Windowed, "windows"),
    (FamilyKind::Times, "windows"),
    (FamilyKind::Windowed, "sessions"),
    (FamilyKind::Times, "sessions"),
];

fn specs() -> [StoreSpec; 5] {
    [
        StoreSpec::new("plain", StoreKind::KeyValue),
        StoreSpec::new(
            "versions",
            StoreKind::Versioned {
                history_retention: 100,
                segment_interval: 10,
            },
        ),
        StoreSpec::new("stamped", StoreKind::TimestampedKeyValue),
        StoreSpec::new(
            "windows",
            StoreKind::Window {
                retention: 100,
                window_size: 10,
                retain_duplicates: false,
                timestamped: true,
            },
        ),
        StoreSpec::new("sessions", StoreKind::Session { retention: 100 }),
    ]
}

/// Reads bytes as rows: family, length of the key, key, length of the value, value.
fn rows(mut bytes: &[u8]) -> Vec<(FamilySpec, &[u8], &[u8])> {
    let mut rows = Vec::new();
    let part = |bytes: &mut &'_ [u8]| -> Option<usize> {
        let (length, rest) = bytes.split_first()?;
        *bytes = rest;
        Some(usize::from(*length).min(rest.len()))
    };
    while let Some((family, rest)) = bytes.split_first() {
        bytes = rest;
        let Some(key) = part(&mut bytes) else { break };
        let (key, rest) = bytes.split_at(key);
        bytes = rest;
        let Some(value) = part(&mut bytes) else { break };
        let (value, rest) = bytes.split_at(value);
        bytes = rest;
        let (kind, store) = FAMILIES[usize::from(*family) % FAMILIES.len()];
        rows.push((FamilySpec::new(kind, store), key, value));
    }
    rows
}

/// Reads the rows of all stores, puts a version of some keys, and compacts all stores.
fn read_all(db: &Database) -> holdfast_core::Result<()> {
    let (first, last) = (Timestamp::MIN, Timestamp::MAX);
    let mut tx = db.begin()?;
    let tx = &mut tx;
    db.committed_offsets()?;
    db.metrics()?;
    for reverse in [false, true] {
        db.key_value("plain")?
            .range(tx, None, None, reverse)?
            .for_each(&mut |_, _| Step::Next)?;
        db.timestamped_key_value("stamped")?
            .range(tx, None, None, reverse)?
            .for_each(&mut |_, _| true)?;
        db.window("windows")?
            .fetch_range(tx, None, None, first, last, reverse)?
            .for_each(&mut |_, _| true)?;
        let query = SessionQuery {
            key_from: None,
            key_to: None,
            earliest_end: first,
            latest_start: last,
            reverse,
        };
        db.session("sessions")?
            .find_sessions(tx, query)?
            .for_each(&mut |_, _| true)?;
    }
    let versions = db.versioned("versions")?;
    versions
        .versions_range(tx, None, None, first, last)?
        .for_each(&mut |_, _| true)?;
    for as_of in [None, Some(Timestamp(0)), Some(last)] {
        versions.scan(tx, as_of)?.for_each(&mut |_, _| true)?;
    }
    for key in [&b""[..], b"a", b"k"] {
        versions.get(tx, key, |_| ())?;
        versions.get_as_of(tx, key, Timestamp(5), |_| ())?;
        versions.put(tx, key, Some(b"v"), Timestamp(5))?;
        versions
            .versions(tx, key, first, last, true)?
            .for_each(&mut |_, _| true)?;
    }
    for store in db.stores() {
        db.compact(&store.name)?;
    }
    Ok(())
}

#[test]
fn reading_foreign_rows_never_panics() {
    let options = DatabaseOptions {
        durability: Durability::Changelog,
        ..DatabaseOptions::default()
    };
    feed("rows", times(60), |bytes| {
        let dir = directory().expect("a temporary directory");
        let path = dir.path().join("database");
        Database::open(&path, &specs(), options.clone())
            .and_then(|db| db.close())
            .expect("a new database");
        let families: Vec<_> = FAMILIES
            .iter()
            .map(|(kind, store)| FamilySpec::new(*kind, store))
            .collect();
        let rocks = RocksDb::open(&path, &families, &RocksOptions::default()).expect("RocksDB");
        let mut batch = Batch::with_capacity(bytes.len());
        for (family, key, value) in rows(bytes) {
            batch.push(
                rocks.family(&family).expect("a family").id,
                key,
                Some(value),
            );
        }
        rocks.write(&mut batch).expect("a write");
        rocks.flush(true).expect("a flush");
        rocks.close();
        drop(rocks);
        if let Ok(db) = Database::open(&path, &specs(), options.clone()) {
            let _ = read_all(&db);
        }
    });
}
