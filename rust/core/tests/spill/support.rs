//! What the tests of spilled transactions share: stores, writes, and the expected state.

#[path = "../../../proof/src/memory_folder.rs"]
mod memory_folder;

use holdfast_core::{
    Database, DatabaseOptions, Durability, Offset, OffsetChange, StoreKind, StoreSpec, Timestamp,
    TopicPartition, Transaction,
};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Failpoints are global to the process, so the tests run one after another.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock()
}

pub(crate) fn directory() -> tempfile::TempDir {
    // Every spill syncs files; memory makes that cheap.
    tempfile::tempdir_in(memory_folder::memory_folder()).unwrap()
}

pub(crate) fn options(durability: Durability, uncommitted_max_bytes: i64) -> DatabaseOptions {
    DatabaseOptions {
        durability,
        uncommitted_max_bytes,
        ..DatabaseOptions::default()
    }
}

pub(crate) fn specs() -> Vec<StoreSpec> {
    let versioned = StoreKind::Versioned {
        history_retention: 1_000_000,
        segment_interval: 1_000,
    };
    let kv = |name: &str| StoreSpec::new(name, StoreKind::KeyValue);
    vec![
        kv("kv"),
        StoreSpec::new("rates", versioned),
        StoreSpec {
            transactional: false,
            ..kv("direct")
        },
        StoreSpec {
            persistent: false,
            ..kv("memory")
        },
    ]
}

pub(crate) fn open(path: &Path, limit: i64) -> Arc<Database> {
    Database::open(path, &specs(), options(Durability::Sync, limit)).unwrap()
}

pub(crate) fn partition() -> TopicPartition {
    TopicPartition {
        topic: "log".into(),
        partition: 0,
    }
}

pub(crate) fn at(offset: i64) -> OffsetChange {
    OffsetChange::Set(vec![(partition(), Some(Offset(offset)))])
}

pub(crate) type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

pub(crate) fn rows(db: &Database, tx: &mut Transaction) -> Rows {
    let mut rows = Rows::new();
    let mut scan = db
        .key_value("kv")
        .unwrap()
        .range(tx, None, None, false)
        .unwrap();
    let mut visit = |key: &[u8], value: &[u8]| {
        assert!(rows.insert(key.to_vec(), value.to_vec()).is_none());
        holdfast_core::Step::Next
    };
    scan.for_each(&mut visit).unwrap();
    rows
}

pub(crate) fn put(db: &Database, key: &[u8], value: Option<&[u8]>) {
    let mut tx = db.transaction().unwrap();
    db.key_value("kv")
        .unwrap()
        .put(&mut tx, key, value)
        .unwrap();
    db.write_through(&mut tx).unwrap();
}

pub(crate) fn folder_is_empty(path: &Path) -> bool {
    std::fs::read_dir(path).map_or(true, |mut entries| entries.next().is_none())
}

/// Writes all stores of `specs` in one transaction at offset `n`; `n` determines the writes.
pub(crate) fn transaction(db: &Database, n: i64) {
    let mut tx = db.transaction().unwrap();
    for i in 0..10u8 {
        let value = [n as u8, i];
        for store in ["kv", "direct", "memory"] {
            let deleted = (i + n as u8).is_multiple_of(5);
            db.key_value(store)
                .unwrap()
                .put(&mut tx, &[i], (!deleted).then_some(&value[..]))
                .unwrap();
        }
        db.write_through(&mut tx).unwrap();
        let rates = db.versioned("rates").unwrap();
        // Some puts are late.
        rates
            .put(
                &mut tx,
                &[i % 4],
                Some(&value),
                Timestamp(n * 100 + i64::from(i ^ 5)),
            )
            .unwrap();
    }
    tx.observe(
        TopicPartition {
            topic: "input".into(),
            partition: 3,
        },
        Offset(n),
    )
    .unwrap();
}

/// Returns the contents of all stores that survive an unclean stop, the offset and the position.
pub(crate) fn state(db: &Database, tx: &mut Transaction) -> Vec<String> {
    let mut state = vec![format!(
        "{:?} {:?}",
        db.store_offset("kv", &partition()).unwrap(),
        db.position()
    )];
    let mut text = |store: &str, key: &[u8], value: &[u8], times: &str| {
        state.push(format!("{store} {key:?} {value:?} {times}"))
    };
    for (key, value) in rows(db, tx) {
        text("kv", &key, &value, "");
    }
    let rates = db.versioned("rates").unwrap();
    text("rates", &[], &[], &format!("{:?}", rates.stream_time(tx)));
    let mut scan = rates
        .versions_range(tx, None, None, Timestamp(0), Timestamp(i64::MAX))
        .unwrap();
    let mut version = |key: &[u8], v: holdfast_core::Version<'_>| {
        text(
            "rates",
            key,
            v.value,
            &format!("{:?} {:?}", v.timestamp, v.valid_to),
        );
        true
    };
    scan.for_each(&mut version).unwrap();
    let mut scan = rates.scan(tx, None).unwrap();
    let mut newest = |key: &[u8], v: holdfast_core::Version<'_>| {
        text(
            "newest rates",
            key,
            v.value,
            &format!("{:?} {:?}", v.timestamp, v.valid_to),
        );
        true
    };
    scan.for_each(&mut newest).unwrap();
    state
}

pub(crate) fn committed(db: &Database) -> Vec<String> {
    state(db, &mut db.begin().unwrap())
}

/// Returns the state after `last` transactions that do not spill.
pub(crate) fn expected(durability: Durability, last: i64) -> Vec<String> {
    let dir = directory();
    let db = Database::open(dir.path(), &specs(), options(durability, -1)).unwrap();
    for n in 1..=last {
        transaction(&db, n);
        db.commit(at(n)).unwrap();
    }
    committed(&db)
}
