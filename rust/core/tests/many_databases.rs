//! Many databases of one process: they share the memory of the write buffers.
#![allow(clippy::unwrap_used, reason = "a test")]

use holdfast_core::{
    Database, DatabaseOptions, Durability, OffsetChange, StoreKind, StoreSpec, Timestamp,
};
use std::path::Path;
use std::sync::Arc;

const DATABASES: usize = 64;
const ROUNDS: usize = 30;

/// How many memtables all databases have begun to flush, according to their logs.
///
/// The number of sorted files does not show it: a compaction of the files that the open wrote also
/// writes a file.
fn flushes(folder: &Path) -> usize {
    (0..DATABASES)
        .map(|n| std::fs::read_to_string(folder.join(n.to_string()).join("LOG")).unwrap())
        .map(|log| log.matches(r#""event": "flush_started""#).count())
        .sum()
}

/// Commits 10 small rows to each database in turn, in each round. Returns the number of flushes.
fn commit_in_turns(kind: StoreKind, write: impl Fn(&Database, [u8; 8])) -> usize {
    let dir = tempfile::tempdir().unwrap();
    let options = DatabaseOptions {
        durability: Durability::Changelog,
        ..DatabaseOptions::default()
    };
    let specs = [StoreSpec::new("s", kind)];
    let open = |n: usize| {
        Database::open(&dir.path().join(n.to_string()), &specs, options.clone()).unwrap()
    };
    let databases: Vec<Arc<Database>> = (0..DATABASES).map(open).collect();
    let before = flushes(dir.path());
    assert!(before > 0, "an open flushes");
    for round in 0..ROUNDS {
        for db in &databases {
            for row in 0..10 {
                write(db, (round * 10 + row).to_be_bytes());
            }
            db.commit(OffsetChange::Keep).unwrap();
        }
    }
    flushes(dir.path()) - before
}

/// Once, each memtable counted a whole block of up to 1 MiB. The memory was full after one commit
/// of each database, and every further commit flushed its database.
#[test]
fn small_commits_to_many_databases_flush_nothing() {
    let versioned = StoreKind::Versioned {
        history_retention: 1_000_000,
        segment_interval: 100_000,
    };
    let made = commit_in_turns(versioned, |db, key| {
        let rates = db.versioned("s").unwrap();
        db.write(|tx| rates.put(tx, &key, Some(&[7; 40]), Timestamp(1)))
            .unwrap();
    });
    assert_eq!(made, 0, "versioned");
    let made = commit_in_turns(StoreKind::KeyValue, |db, key| {
        let store = db.key_value("s").unwrap();
        db.write(|tx| store.put(tx, &key, Some(&[7; 40]))).unwrap();
    });
    assert_eq!(made, 0, "key-value");
}
