//! The versions of a key oldest first are the reverse of newest first, even if a key has more
//! versions than a scan buffers.

use holdfast_core::{
    Database, DatabaseOptions, Durability, OffsetChange, StoreKind, StoreSpec, Timestamp,
    Transaction, VersionScan, VersionedStore,
};
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;

/// Two values of this size are more than an ascending scan buffers.
const LARGE: usize = 200 << 10;
const RETENTION: i64 = 50;
const KEYS: [&[u8]; 4] = [b"", b"a", b"a\0", b"b"];

/// Key, begin and end of a version, and the first byte and the length of its value.
type Row = (Vec<u8>, i64, Option<i64>, u8, usize);

#[derive(Clone, Debug)]
enum Step {
    /// The number of a key, a begin, and the value: a tombstone, small (false) or large (true).
    Put(usize, i64, Option<bool>),
    Commit,
    Flush,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..KEYS.len(), 0..100i64,
            prop_oneof![1 => Just(None), 2 => Just(Some(false)), 6 => Just(Some(true))])
            .prop_map(|(key, at, value)| Step::Put(key, at, value)),
        1 => Just(Step::Commit),
        1 => Just(Step::Flush),
    ]
}

fn open(dir: &Path, in_memory: bool, spills: bool) -> Arc<Database> {
    let kind = StoreKind::Versioned {
        history_retention: RETENTION,
        segment_interval: 10,
    };
    let spec = StoreSpec {
        persistent: !in_memory,
        ..StoreSpec::new("v", kind)
    };
    let uncommitted_max_bytes = if spills { 0 } else { 64 << 20 };
    Database::open(
        dir,
        &[spec],
        DatabaseOptions {
            uncommitted_max_bytes,
            durability: Durability::Changelog,
            ..DatabaseOptions::default()
        },
    )
    .unwrap()
}

/// Returns the rest of a scan that pauses after each `pause` versions.
fn rows(mut scan: VersionScan, pause: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    loop {
        let mut left = pause;
        let paused = scan.for_each(&mut |key, version| {
            let row = (
                key.to_vec(),
                version.timestamp.0,
                version.valid_to.map(|end| end.0),
                version.value[0],
                version.value.len(),
            );
            rows.push(row);
            left -= 1;
            left > 0
        });
        if !paused.unwrap() {
            return rows;
        }
    }
}

fn check(store: &VersionedStore, tx: &mut Transaction, pause: usize) -> Result<(), TestCaseError> {
    for (from, to) in [(-1, 200), (20, 80), (60, 60), (70, 99), (0, 30), (40, 20)] {
        let (from, to) = (Timestamp(from), Timestamp(to));
        let mut all = Vec::new();
        for key in KEYS {
            let mut expected = rows(
                store.versions(tx, key, from, to, false).unwrap(),
                usize::MAX,
            );
            expected.reverse();
            let ascending = rows(store.versions(tx, key, from, to, true).unwrap(), pause);
            prop_assert_eq!(&ascending, &expected);
            all.extend(expected);
        }
        prop_assert_eq!(
            &rows(
                store.versions_range(tx, None, None, from, to).unwrap(),
                pause
            ),
            &all
        );
        let inner: Vec<Row> = all
            .into_iter()
            .filter(|row| row.0 == b"a" || row.0 == b"a\0")
            .collect();
        prop_assert_eq!(
            &rows(
                store
                    .versions_range(tx, Some(b"a"), Some(b"a\0"), from, to)
                    .unwrap(),
                pause
            ),
            &inner
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn oldest_first_is_the_reverse_of_newest_first(
        steps in prop::collection::vec(step(), 1..40), in_memory in any::<bool>(),
        spills in prop::bool::weighted(0.2), pause in 1..4usize,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let db = open(dir.path(), in_memory, spills);
        let store = db.versioned("v").unwrap();
        for (n, step) in steps.iter().enumerate() {
            match *step {
                Step::Put(key, at, value) => {
                    let value =
                        value.map(|is_large| vec![n as u8; if is_large { LARGE } else { 1 + n }]);
                    store.put(&mut db.transaction().unwrap(), KEYS[key], value.as_deref(),
                        Timestamp(at)).unwrap();
                }
                Step::Commit => db.commit(OffsetChange::Keep).unwrap(),
                Step::Flush => db.flush(true).unwrap(),
            }
        }
        check(&store, &mut db.transaction().unwrap(), pause)?;
        check(&store, &mut db.begin().unwrap(), pause)?;
        drop(store);
        db.close().unwrap();
    }
}

#[test]
fn key_with_more_versions_than_the_buffer_is_read_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path(), false, false);
    let store = db.versioned("v").unwrap();
    for at in 0..20 {
        let mut tx = db.transaction().unwrap();
        store
            .put(&mut tx, b"a", Some(&vec![at as u8; LARGE]), Timestamp(at))
            .unwrap();
        store
            .put(&mut tx, b"b", Some(&[at as u8]), Timestamp(at))
            .unwrap();
        drop(tx);
        if at == 12 {
            db.commit(OffsetChange::Keep).unwrap();
        }
    }
    let row =
        |key: &[u8], at: i64, len| (key.to_vec(), at, (at < 19).then_some(at + 1), at as u8, len);
    let expected: Vec<Row> = (0..20)
        .map(|at| row(b"a", at, LARGE))
        .chain((0..20).map(|at| row(b"b", at, 1)))
        .collect();
    let scan = store
        .versions_range(
            &mut db.transaction().unwrap(),
            None,
            None,
            Timestamp(0),
            Timestamp(99),
        )
        .unwrap();
    assert_eq!(rows(scan, 3), expected);
    // A scan reads the state at the time when it was opened.
    let scan = store
        .versions_range(
            &mut db.transaction().unwrap(),
            None,
            None,
            Timestamp(0),
            Timestamp(99),
        )
        .unwrap();
    db.rollback().unwrap();
    assert_eq!(rows(scan, 3), expected);
}
