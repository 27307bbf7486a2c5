//! The memory of the files' indexes and filters: it is a part of the block cache.
//!
//! `HOLDFAST_INDEX_ROWS` is the number of rows, 5 million by default; `make bench-full` sets it to
//! 100 million.
#![allow(clippy::unwrap_used, reason = "a test")]

use holdfast_core::rocks::{SharedMemory, configure_shared_memory};
use holdfast_core::{
    Commit, Database, DatabaseOptions, Durability, FigureValue, StoreKind, StoreSpec,
};

const TRANSACTION: u64 = 100_000;

/// A key of 16 bytes; neighbouring numbers have keys that are far apart.
fn key(n: u64) -> [u8; 16] {
    (u128::from(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)) << 64 | u128::from(n)).to_be_bytes()
}

fn whole(found: Option<FigureValue>, name: &str) -> u64 {
    match found {
        Some(FigureValue::Whole(bytes)) => bytes,
        other => panic!("{name} is {other:?}"),
    }
}

/// Once, filters and indexes of open files, 1.3 bytes a row, were memory beside the cache.
#[test]
fn indexes_and_filters_are_within_the_cache() {
    let rows: u64 =
        std::env::var("HOLDFAST_INDEX_ROWS").map_or(5_000_000, |rows| rows.parse().unwrap());
    // Smaller than the files, larger than their indexes and filters.
    let cache = 2 * rows;
    configure_shared_memory(SharedMemory {
        block_cache: cache as usize,
        ..SharedMemory::default()
    });
    let dir = tempfile::tempdir().unwrap();
    let options = DatabaseOptions {
        durability: Durability::Changelog,
        ..DatabaseOptions::default()
    };
    let specs = [StoreSpec::new("kv", StoreKind::KeyValue)];
    let db = Database::open(dir.path(), &specs, options).unwrap();
    let store = db.key_value("kv").unwrap();
    for first in (0..rows).step_by(TRANSACTION as usize) {
        let mut tx = db.begin().unwrap();
        for n in first..rows.min(first + TRANSACTION) {
            store.put(&mut tx, &key(n), Some(&n.to_be_bytes())).unwrap();
        }
        db.commit_transaction(tx, Commit::default()).unwrap();
    }
    db.flush(true).unwrap();
    db.compact("kv").unwrap();
    // Reads in every part of the files.
    let mut tx = db.begin().unwrap();
    for n in (0..rows).step_by((rows / 100_000).max(1) as usize) {
        let is_found = store
            .get(&mut tx, &key(n), |value| value == Some(&n.to_be_bytes()))
            .unwrap();
        assert!(is_found, "row {n}");
    }
    let metrics = db.metrics().unwrap();
    let readers = whole(
        metrics.of_store("kv", "estimate-table-readers-mem"),
        "readers",
    );
    let usage = whole(metrics.get("block-cache-usage"), "usage");
    println!("{rows} rows: {readers} bytes of readers, {usage} of the cache of {cache}");
    // Expected is less than 1 KiB for each file of 32 MiB; the bound is larger.
    assert!(readers < rows / 50, "{readers} bytes beside the cache");
    // The clock cache may exceed its capacity by the blocks that are being read.
    assert!(usage < cache * 5 / 4, "{usage} bytes of {cache}");
}
