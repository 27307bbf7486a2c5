//! Restores of a key-value store from its changelog: in files, in memory, and with more rows than
//! the memory of a transaction.
#![allow(clippy::unwrap_used, reason = "a test")]

use holdfast_core::{
    Commit, Database, DatabaseOptions, ErrorKind, FigureValue, Offset, OffsetChange, Position,
    Step, StoreKind, StoreSpec, Timestamp, TopicPartition, VersionRow,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

type Rows = Vec<(Vec<u8>, Option<Vec<u8>>)>;

fn specs() -> [StoreSpec; 1] {
    [StoreSpec::new("kv", StoreKind::KeyValue)]
}

fn options(uncommitted_max_bytes: i64) -> DatabaseOptions {
    DatabaseOptions {
        uncommitted_max_bytes,
        ..DatabaseOptions::default()
    }
}

fn open(path: &Path, uncommitted_max_bytes: i64) -> Arc<Database> {
    Database::open(path, &specs(), options(uncommitted_max_bytes)).unwrap()
}

fn log() -> TopicPartition {
    TopicPartition {
        topic: "log".to_owned(),
        partition: 0,
    }
}

fn restore(db: &Database, rows: &Rows, offset: i64) -> holdfast_core::Result<()> {
    let rows: Vec<VersionRow<'_>> = rows
        .iter()
        .map(|(key, value)| VersionRow {
            key,
            value: value.as_deref(),
            timestamp: Timestamp(0),
        })
        .collect();
    let commit = Commit {
        offsets: OffsetChange::Set(vec![(log(), Some(Offset(offset)))]),
        properties: Vec::new(),
    };
    db.restore("kv", &rows, &commit, &Position::default())
}

fn contents(db: &Database) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut tx = db.begin().unwrap();
    let store = db.key_value("kv").unwrap();
    let mut scan = store.range(&mut tx, None, None, false).unwrap();
    let mut rows = BTreeMap::new();
    scan.for_each(&mut |key, value| {
        rows.insert(key.to_vec(), value.to_vec());
        Step::Next
    })
    .unwrap();
    rows
}

fn batch() -> impl Strategy<Value = Rows> {
    let row = |key| {
        (
            key,
            prop::option::weighted(0.8, any::<[u8; 2]>().prop_map(Vec::from)),
        )
    };
    prop_oneof![
        prop::collection::vec(row(prop::collection::vec(0u8..3, 0..11).boxed()), 0..50),
        // Enough rows for a radix sort.
        prop::collection::vec(
            row("customer-[0-9]{3}".prop_map(String::into_bytes).boxed()),
            2_000..3_000
        ),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn restored_store_matches_map(batches in prop::collection::vec(batch(), 1..4)) {
        let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let databases = [
            open(dirs[0].path(), 64 << 20),
            open(dirs[1].path(), -1),
            // These rows are staged, and most of them spill.
            open(dirs[2].path(), 10_000),
            Database::open_in_memory(&specs(), options(-1)).unwrap(),
        ];
        let mut model = BTreeMap::new();
        for (n, batch) in batches.iter().enumerate() {
            for (key, value) in batch {
                match value {
                    Some(value) => model.insert(key.clone(), value.clone()),
                    None => model.remove(key),
                };
            }
            // A batch that is restored again changes nothing.
            for offset in [n as i64, n as i64] {
                for db in &databases {
                    restore(db, batch, offset).unwrap();
                    prop_assert_eq!(contents(db), model.clone());
                    prop_assert_eq!(db.store_offset("kv", &log()).unwrap(), Some(Offset(offset)));
                }
            }
        }
        let rows = batches.iter().map(|batch| 2 * batch.len() as u64).sum();
        for db in &databases {
            let metrics = db.metrics().unwrap();
            let figure = |name| metrics.of_store("kv", name).unwrap();
            prop_assert_eq!(figure("restore-total"), FigureValue::Whole(2 * batches.len() as u64));
            prop_assert_eq!(figure("restore-records-total"), FigureValue::Whole(rows));
        }
    }
}

#[test]
fn too_large_row_is_named_and_nothing_is_restored() {
    for limit in [64 << 20, -1] {
        let dir = tempfile::tempdir().unwrap();
        let db = open(dir.path(), limit);
        let rows = vec![
            (b"a".to_vec(), Some(b"1".to_vec())),
            (b"huge".to_vec(), Some(vec![0; (1 << 30) + 1])),
        ];
        let error = restore(&db, &rows, 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidValue, "{error}");
        assert!(
            error.to_string().contains("[store: kv, key: huge]"),
            "{error}"
        );
        assert_eq!(contents(&db), BTreeMap::new());
        assert_eq!(db.store_offset("kv", &log()).unwrap(), None);
    }
}
