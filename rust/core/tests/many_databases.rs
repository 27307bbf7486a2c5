//! Many databases of one process: they share the memory of the write buffers.
#![allow(clippy::unwrap_used, reason = "a test")]

use holdfast_core::{
    Database, DatabaseOptions, Durability, OffsetChange, StoreKind, StoreSpec, Timestamp,
};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DATABASES: usize = 64;
const ROUNDS: usize = 30;

/// How many sorted files all databases have.
fn sorted_files(folder: &Path) -> BTreeSet<PathBuf> {
    (0..DATABASES)
        .flat_map(|n| std::fs::read_dir(folder.join(n.to_string())).unwrap())
        .map(|file| file.unwrap().path())
        .filter(|file| file.extension() == Some("sst".as_ref()))
        .collect()
}

/// Commits 10 small rows to each database in turn; returns how many sorted files that makes.
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
    let before = sorted_files(dir.path());
    for round in 0..ROUNDS {
        for db in &databases {
            for row in 0..10 {
                write(db, (round * 10 + row).to_be_bytes());
            }
            db.commit(OffsetChange::Keep).unwrap();
        }
    }
    // RocksDB may remove a file of the open meanwhile.
    sorted_files(dir.path()).difference(&before).count()
}

/// Each memtable counted a whole block of up to 1 MiB, so the memory was full after one commit of
/// each database, and every further commit flushed its database.
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
