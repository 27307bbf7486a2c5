//! A scan and a batch of reads as of a moment find each key's version at that moment, however long
//! the histories are.

use holdfast_core::{
    Database, DatabaseOptions, Durability, OffsetChange, StoreKind, StoreSpec, Timestamp,
    Transaction, Version, VersionRow, VersionScan, VersionedStore,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Key, value, begin and end of a version.
type Row = (Vec<u8>, Vec<u8>, i64, Option<i64>);

/// Begin and value of a version; `None` is a tombstone.
type Put = (i64, Option<Vec<u8>>);

/// The versions of each key by begin.
#[derive(Clone, Default)]
struct Histories(BTreeMap<Vec<u8>, BTreeMap<i64, Option<Vec<u8>>>>);

impl Histories {
    fn get(&self, key: &[u8], at: i64) -> Option<Row> {
        let versions = self.0.get(key)?;
        let (begin, value) = versions.range(..=at).next_back()?;
        let end = versions.range(at + 1..).next().map(|(end, _)| *end);
        Some((key.to_vec(), value.clone()?, *begin, end))
    }

    fn as_of(&self, at: i64) -> Vec<Row> {
        self.0.keys().filter_map(|key| self.get(key, at)).collect()
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Puts versions of a key: first begin, gap between begins, count.
    Puts(u8, i64, i64, i64),
    Commit,
    Flush,
}

fn step() -> impl Strategy<Value = Step> {
    // Most histories are long, and some keys have far more versions per time than others.
    let gap = prop_oneof![1 => 1..3i64, 2 => 10..60i64, 1 => 200..2_000i64];
    let count = prop_oneof![1 => 1..3i64, 3 => 5..80i64];
    prop_oneof![
        12 => (0..24u8, 0..3_000i64, gap, count).prop_map(|(k, b, g, c)| Step::Puts(k, b, g, c)),
        1 => Just(Step::Commit),
        1 => Just(Step::Flush),
    ]
}

fn open(dir: &Path, in_memory: bool, spills: bool) -> Arc<Database> {
    let kind = StoreKind::Versioned {
        history_retention: i64::MAX / 4,
        segment_interval: i64::MAX / 8,
    };
    let spec = StoreSpec {
        persistent: !in_memory,
        ..StoreSpec::new("v", kind)
    };
    let options = DatabaseOptions {
        uncommitted_max_bytes: if spills { 0 } else { 64 << 20 },
        durability: Durability::Changelog,
        ..DatabaseOptions::default()
    };
    Database::open(dir, &[spec], options).unwrap()
}

fn key(number: u8) -> Vec<u8> {
    // Some keys are prefixes of others, and some have a NUL.
    match number % 3 {
        0 => vec![number / 3],
        1 => vec![number / 3, 0],
        _ => vec![number / 3, 0, b'a'],
    }
}

fn put(store: &VersionedStore, tx: &mut Transaction, key: &[u8], puts: &[Put]) {
    let rows: Vec<_> = puts
        .iter()
        .map(|(at, value)| VersionRow {
            key,
            value: value.as_deref(),
            timestamp: Timestamp(*at),
        })
        .collect();
    store.put_batch(tx, &rows, &mut |_| {}).unwrap();
}

fn row(key: &[u8], version: Version<'_>) -> Row {
    let end = version.valid_to.map(|end| end.0);
    (
        key.to_vec(),
        version.value.to_vec(),
        version.timestamp.0,
        end,
    )
}

/// Returns the rows of a scan that pauses after each `pause` versions.
fn rows(mut scan: VersionScan, pause: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    loop {
        let mut left = pause;
        let paused = scan.for_each(&mut |key, version| {
            rows.push(row(key, version));
            left -= 1;
            left > 0
        });
        if !paused.unwrap() {
            // A scan that has ended stays at its end.
            assert!(!scan.for_each(&mut |_, _| true).unwrap());
            return rows;
        }
    }
}

fn check(
    store: &VersionedStore,
    tx: &mut Transaction,
    model: &Histories,
    pause: usize,
) -> Result<(), TestCaseError> {
    let begins = model.0.values().flat_map(|versions| versions.keys());
    let last = begins.max().copied().unwrap_or(0);
    let times = [
        -1,
        0,
        50,
        last / 4,
        last / 2,
        last / 2 + 1,
        last * 9 / 10,
        last - 1,
        last,
    ];
    for at in times {
        let scan = store.scan(tx, Some(Timestamp(at))).unwrap();
        prop_assert_eq!(rows(scan, pause), model.as_of(at), "as of {}", at);
    }
    // Each read is in the batch twice, and so is a key that was never put.
    let absent = b"absent".to_vec();
    let keys = model.0.keys().chain([&absent]);
    let reads: Vec<_> = keys.flat_map(|key| times.map(|at| (key, at))).collect();
    let reads: Vec<_> = reads.iter().chain(reads.iter().rev()).copied().collect();
    let keys: Vec<_> = reads.iter().map(|(key, _)| key.as_slice()).collect();
    let moments: Vec<_> = reads.iter().map(|(_, at)| Timestamp(*at)).collect();
    let mut found = Vec::new();
    let mut add = |n: usize, version: Option<Version<'_>>| {
        found.push(version.map(|version| row(keys[n], version)));
    };
    store
        .get_batch(tx, &keys, Some(&moments), &mut add)
        .unwrap();
    let expected: Vec<_> = reads.iter().map(|(key, at)| model.get(key, *at)).collect();
    prop_assert_eq!(found, expected);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn scans_and_batches_as_of_a_moment_match_the_histories(
        steps in prop::collection::vec(step(), 1..40), in_memory in any::<bool>(),
        spills in prop::bool::weighted(0.2), pause in prop_oneof![1..4usize, Just(usize::MAX)],
    ) {
        let dir = tempfile::tempdir().unwrap();
        let db = open(dir.path(), in_memory, spills);
        let store = db.versioned("v").unwrap();
        let (mut staged, mut committed) = (Histories::default(), Histories::default());
        for (n, step) in steps.iter().enumerate() {
            match *step {
                Step::Puts(number, first, gap, count) => {
                    let key = key(number);
                    let puts: Vec<_> = (0..count)
                        .map(|m| (first + gap * m, (m % 5 != 4).then(|| vec![n as u8, m as u8])))
                        .collect();
                    put(&store, &mut db.transaction().unwrap(), &key, &puts);
                    staged.0.entry(key).or_default().extend(puts);
                }
                Step::Commit => {
                    db.commit(OffsetChange::Keep).unwrap();
                    committed = staged.clone();
                }
                Step::Flush => db.flush(true).unwrap(),
            }
        }
        check(&store, &mut db.transaction().unwrap(), &staged, pause)?;
        check(&store, &mut db.begin().unwrap(), &committed, pause)?;
        drop(store);
        db.close().unwrap();
    }
}
