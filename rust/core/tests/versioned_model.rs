//! The versioned store against a plain map, over random operations with commits, rollbacks, reopens, compactions and batches.
#![allow(clippy::unwrap_used, reason = "a test")]

use holdfast_core::{Applied, Durability, OffsetChange, Op, StoreKind, StoreSpec, Task, TaskOptions, Timestamp};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

const RETENTION: i64 = 40;

#[derive(Clone, Debug)]
enum Step {
    Batch(Vec<(u8, i64, Option<Option<u8>>)>),
    Versions { key: u8, from: i64, span: i64, ascending: bool },
    Range { from: i64, span: i64 },
    Scan(Option<i64>),
    Commit,
    Rollback,
    Reopen,
    Compact,
    Freeze,
}

fn step() -> impl Strategy<Value = Step> {
    let op = (0u8..6, -20i64..120, prop::option::of(prop::option::of(any::<u8>())));
    prop_oneof![
        8 => prop::collection::vec(op, 1..20).prop_map(Step::Batch),
        2 => (0u8..6, -20i64..120, 0i64..40, any::<bool>()).prop_map(|(key, from, span, ascending)| Step::Versions { key, from, span, ascending }),
        1 => (-20i64..120, 0i64..40).prop_map(|(from, span)| Step::Range { from, span }),
        2 => prop::option::of(-20i64..120).prop_map(Step::Scan),
        3 => Just(Step::Commit),
        1 => Just(Step::Rollback),
        1 => Just(Step::Reopen),
        1 => Just(Step::Compact),
        1 => Just(Step::Freeze),
    ]
}

/// key → begin → value, and the stream time: the contract in twenty lines.
#[derive(Clone, Default, Debug)]
struct Model {
    keys: BTreeMap<Vec<u8>, BTreeMap<i64, Option<u8>>>,
    stream_time: Option<i64>,
}

type Row = (Vec<u8>, i64, Option<i64>);

impl Model {
    fn horizon(&self) -> i64 {
        self.stream_time.map_or(i64::MIN, |time| time - RETENTION)
    }

    fn put(&mut self, key: &[u8], value: Option<u8>, at: i64) -> (bool, Option<i64>) {
        if at < self.horizon() {
            return (false, None);
        }
        let versions = self.keys.entry(key.to_vec()).or_default();
        versions.insert(at, value);
        let next = versions.range(at + 1..).next().map(|(begin, _)| *begin);
        self.stream_time = self.stream_time.max(Some(at));
        (true, next)
    }

    fn row(versions: &BTreeMap<i64, Option<u8>>, begin: i64) -> Option<Row> {
        let value = versions[&begin]?;
        Some((vec![value], begin, versions.range(begin + 1..).next().map(|(begin, _)| *begin)))
    }

    fn get(&self, key: &[u8], at: i64) -> Option<Row> {
        let versions = self.keys.get(key)?;
        let (newest, _) = versions.last_key_value()?;
        if at < self.horizon() && *newest > at {
            return None;
        }
        let (begin, _) = versions.range(..=at).next_back()?;
        Self::row(versions, *begin)
    }

    fn versions(&self, key: &[u8], from: i64, to: i64) -> Vec<Row> {
        let Some(versions) = self.keys.get(key) else { return Vec::new() };
        let rows = versions.keys().filter_map(|begin| Self::row(versions, *begin));
        rows.filter(|(_, begin, end)| {
            let newest_only = to < self.horizon();
            from <= to && *begin <= to && end.is_none_or(|end| !newest_only && end > from && end >= self.horizon())
        })
        .collect()
    }
}

fn key(n: u8) -> Vec<u8> {
    // Prefixes of one another, and zero bytes: the keys that a careless layout mixes up.
    [&b""[..], b"a", b"a\0", b"a\0\x01", b"ab", b"a\xff"][n as usize].to_vec()
}

struct Pair {
    dir: tempfile::TempDir,
    place: Place,
    task: Arc<Task>,
    open: Model,
    committed: Model,
}

/// Where the store is; in memory it is empty after a reopen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// With the memory of a transaction, in bytes: it spills at every batch, now and then, or never.
    Files(Durability, i64),
    Memory,
    MemoryBesideFiles,
}

fn open(dir: &std::path::Path, place: Place) -> Arc<Task> {
    let kind = StoreKind::Versioned { history_retention: RETENTION, segment_interval: 10 };
    let spec = StoreSpec::new("s", kind);
    match place {
        Place::Files(durability, uncommitted_max_bytes) => {
            Task::open(dir, &[spec], TaskOptions { durability, uncommitted_max_bytes, ..TaskOptions::default() }).unwrap()
        }
        Place::Memory => Task::open_in_memory(&[spec], TaskOptions::default()).unwrap(),
        Place::MemoryBesideFiles => {
            let beside = StoreSpec::new("beside", StoreKind::KeyValue);
            Task::open(dir, &[beside, StoreSpec { persistent: false, ..spec }], TaskOptions::default()).unwrap()
        }
    }
}

impl Pair {
    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        let store = self.task.versioned("s").unwrap();
        match step {
            Step::Batch(rows) => {
                let keys: Vec<_> = rows.iter().map(|(n, _, _)| key(*n)).collect();
                let values: Vec<_> = rows.iter().map(|(_, _, put)| put.flatten().map(|v| [v])).collect();
                let ops: Vec<_> = rows
                    .iter()
                    .enumerate()
                    .map(|(n, (_, at, put))| match put {
                        Some(_) => Op::Put { key: &keys[n], value: values[n].as_ref().map(|v| v.as_slice()), timestamp: Timestamp(*at) },
                        None => Op::Get { key: &keys[n], as_of: Timestamp(*at) },
                    })
                    .collect();
                let mut results = Vec::new();
                let mut tx = self.task.transaction().unwrap();
                store
                    .apply_batch(&mut tx, &ops, true, &mut |_, applied| {
                        results.push(match applied {
                            Applied::Put(put) => (Some((put.accepted, put.valid_to.map(|t| t.0))), None),
                            Applied::Get(found) => (None, found.map(|v| (v.value.to_vec(), v.timestamp.0, v.valid_to.map(|t| t.0)))),
                        });
                    })
                    .unwrap();
                for (n, (_, at, put)) in rows.iter().enumerate() {
                    let expected = match put {
                        Some(value) => (Some(self.open.put(&keys[n], *value, *at)), None),
                        None => (None, self.open.get(&keys[n], *at)),
                    };
                    prop_assert_eq!(&results[n], &expected, "row {} of {:?}", n, rows);
                }
                prop_assert_eq!(store.stream_time(&tx).map(|t| t.0), self.open.stream_time);
            }
            Step::Versions { key: n, from, span, ascending } => {
                let mut tx = self.task.transaction().unwrap();
                let mut scan = store.versions(&mut tx, &key(n), Timestamp(from), Timestamp(from + span), ascending).unwrap();
                let mut expected = self.open.versions(&key(n), from, from + span);
                if !ascending {
                    expected.reverse();
                }
                prop_assert_eq!(rows(&mut scan), expected.into_iter().map(|row| (key(n), row)).collect::<Vec<_>>());
            }
            Step::Range { from, span } => {
                let mut tx = self.task.transaction().unwrap();
                let (low, high) = (key(1), key(4));
                let mut scan = store.versions_range(&mut tx, Some(&low), Some(&high), Timestamp(from), Timestamp(from + span)).unwrap();
                let keys = self.open.keys.range(low..=high).map(|(key, _)| key);
                let expected: Vec<_> = keys
                    .flat_map(|key| self.open.versions(key, from, from + span).into_iter().map(move |row| (key.clone(), row)))
                    .collect();
                prop_assert_eq!(rows(&mut scan), expected);
            }
            Step::Scan(at) => {
                let mut tx = self.task.transaction().unwrap();
                let mut scan = store.scan(&mut tx, at.map(Timestamp)).unwrap();
                let at = at.unwrap_or(i64::MAX);
                let expected: Vec<_> =
                    self.open.keys.keys().filter_map(|key| self.open.get(key, at).map(|row| (key.clone(), row))).collect();
                prop_assert_eq!(rows(&mut scan), expected);
            }
            Step::Commit => {
                self.task.commit(OffsetChange::Keep).unwrap();
                self.committed = self.open.clone();
            }
            Step::Rollback => {
                self.task.rollback().unwrap();
                self.open = self.committed.clone();
            }
            Step::Reopen => {
                self.task.close().unwrap();
                self.task = open(self.dir.path(), self.place);
                if !matches!(self.place, Place::Files(..)) {
                    self.committed = Model::default();
                }
                self.open = self.committed.clone();
            }
            Step::Compact => {
                self.task.flush(true).unwrap();
                self.task.compact("s").unwrap();
            }
            Step::Freeze => drop(self.task.transaction().unwrap().reader()),
        }
        Ok(())
    }
}

fn rows(scan: &mut holdfast_core::VersionScan) -> Vec<(Vec<u8>, Row)> {
    let mut rows = Vec::new();
    // Stops after every row, so that resuming is tested too.
    while scan
        .for_each(&mut |key, v| {
            rows.push((key.to_vec(), (v.value.to_vec(), v.timestamp.0, v.valid_to.map(|t| t.0))));
            false
        })
        .unwrap()
    {}
    rows
}

fn place() -> impl Strategy<Value = Place> {
    let files = [0, 18_000, -1]
        .into_iter()
        .flat_map(|limit| [Durability::Sync, Durability::Changelog].map(|durability| Place::Files(durability, limit)));
    prop::sample::select(files.chain([Place::Memory, Place::MemoryBesideFiles]).collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 90, ..ProptestConfig::default() })]

    #[test]
    fn the_store_answers_as_the_model(steps in prop::collection::vec(step(), 1..40), place in place()) {
        // Every spill syncs files; memory makes that cheap.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let task = open(dir.path(), place);
        let mut pair = Pair { dir, place, task, open: Model::default(), committed: Model::default() };
        for step in steps {
            pair.step(step)?;
        }
    }
}

#[test]
fn a_view_begun_right_after_open_keeps_its_history_through_a_compaction() {
    let dir = tempfile::tempdir().unwrap();
    let task = open(dir.path(), Place::Files(Durability::Sync, -1));
    let store = task.versioned("s").unwrap();
    for at in [60, 80, 95] {
        store.put(&mut task.transaction().unwrap(), b"k", Some(b"v"), Timestamp(at)).unwrap();
    }
    task.commit(OffsetChange::Keep).unwrap();
    task.close().unwrap();
    let task = open(dir.path(), Place::Files(Durability::Sync, -1));
    let store = task.versioned("s").unwrap();
    let mut view = task.begin().unwrap();
    store.put(&mut task.transaction().unwrap(), b"k", Some(b"v"), Timestamp(1_000)).unwrap();
    task.commit(OffsetChange::Keep).unwrap();
    task.flush(true).unwrap();
    task.compact("s").unwrap();
    let found = store.get_as_of(&mut view, b"k", Timestamp(81), |version| version.map(|v| v.timestamp.0)).unwrap();
    assert_eq!(found, Some(80));
}
