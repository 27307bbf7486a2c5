//! The key-value store against a map, in files and in memory, with transactions and without.

use crate::pair::{Event, Pair, Subject, event, folder};
use holdfast_core::{
    Database, DatabaseOptions, Durability, KeyValueStore, OffsetChange, StoreKind, StoreSpec,
    Transaction,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

type Key = Vec<u8>;
type Model = BTreeMap<Key, Vec<u8>>;

#[derive(Clone, Debug)]
enum Step {
    Puts(Vec<(Key, Option<u8>)>),
    PutIfAbsent(Key, u8),
    Delete(Key),
    DeleteRange(Option<Key>, Option<Key>),
    Gets(Vec<Key>),
    Scan(Option<Key>, Option<Key>, bool),
    Prefix(Key),
    Event(Event),
}

fn key() -> impl Strategy<Value = Key> {
    prop::collection::vec(prop::sample::select(vec![0u8, 1, b'a', 0xff]), 0..3)
}

fn step() -> impl Strategy<Value = Step> {
    let end = || prop::option::weighted(0.9, key());
    prop_oneof![
        8 => prop::collection::vec((key(), prop::option::weighted(0.8, any::<u8>())), 1..8)
            .prop_map(Step::Puts),
        1 => (key(), any::<u8>()).prop_map(|(key, value)| Step::PutIfAbsent(key, value)),
        1 => key().prop_map(Step::Delete),
        4 => (end(), end()).prop_map(|(from, to)| Step::DeleteRange(from, to)),
        2 => prop::collection::vec(key(), 0..6).prop_map(Step::Gets),
        4 => (end(), end(), any::<bool>())
            .prop_map(|(from, to, reverse)| Step::Scan(from, to, reverse)),
        1 => key().prop_map(Step::Prefix),
        9 => event().prop_map(Step::Event),
    ]
}

/// Where the store is, and whether it has transactions.
impl Subject for StoreSpec {
    type Model = Model;

    fn open(&self, dir: &Path) -> Arc<Database> {
        open(dir, self).0
    }

    fn kept(&self, committed: &Model) -> Model {
        if self.persistent {
            committed.clone()
        } else {
            Model::new()
        }
    }

    fn durability(&self) -> Option<Durability> {
        (self.persistent && self.transactional).then_some(Durability::Changelog)
    }

    fn check(
        &self,
        db: &Database,
        view: &mut Transaction,
        model: &Model,
    ) -> Result<(), TestCaseError> {
        let (store, expected): (_, Vec<_>) = (
            db.key_value("s").unwrap(),
            model.clone().into_iter().collect(),
        );
        prop_assert_eq!(&rows(&store, view, None, None, false), &expected);
        prop_assert_eq!(
            rows(&store, view, None, None, true),
            expected.into_iter().rev().collect::<Vec<_>>()
        );
        Ok(())
    }
}

fn open(dir: &Path, spec: &StoreSpec) -> (Arc<Database>, KeyValueStore) {
    // Without a WAL: its fsyncs would take most of the time.
    let options = DatabaseOptions {
        durability: Durability::Changelog,
        ..DatabaseOptions::default()
    };
    let db = Database::open(dir, std::slice::from_ref(spec), options).unwrap();
    let store = db.key_value("s").unwrap();
    (db, store)
}

/// Scans with a stop after every row, which also tests resuming.
fn rows(
    store: &KeyValueStore,
    tx: &mut Transaction,
    from: Option<&[u8]>,
    to: Option<&[u8]>,
    reverse: bool,
) -> Vec<(Key, Vec<u8>)> {
    let mut scan = store.range(tx, from, to, reverse).unwrap();
    let mut rows = Vec::new();
    while scan
        .for_each(&mut |key, value| {
            rows.push((key.to_vec(), value.to_vec()));
            holdfast_core::Step::Pause
        })
        .unwrap()
    {}
    rows
}

fn inside(key: &[u8], from: &Option<Key>, to: &Option<Key>) -> bool {
    from.as_deref().is_none_or(|from| key >= from) && to.as_deref().is_none_or(|to| key <= to)
}

impl Pair<StoreSpec> {
    fn writes(&mut self, write: impl FnOnce(&KeyValueStore, &mut Transaction)) {
        let mut tx = self.db.transaction().unwrap();
        write(&self.db.key_value("s").unwrap(), &mut tx);
        self.db.write_through(&mut tx).unwrap();
    }

    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        let store = self.db.key_value("s").unwrap();
        match step {
            Step::Puts(puts) => {
                for (key, value) in puts {
                    let bytes = value.map(|value| vec![value]);
                    self.writes(|store, tx| store.put(tx, &key, bytes.as_deref()).unwrap());
                    match bytes {
                        Some(value) => self.open.insert(key, value),
                        None => self.open.remove(&key),
                    };
                }
            }
            Step::PutIfAbsent(key, value) => {
                let mut found = None;
                self.writes(|store, tx| {
                    found = store.put_if_absent(tx, &key, Some(&[value])).unwrap()
                });
                prop_assert_eq!(&found, &self.open.get(&key).cloned());
                self.open.entry(key).or_insert(vec![value]);
            }
            Step::Delete(key) => {
                let mut found = None;
                self.writes(|store, tx| found = store.delete(tx, &key).unwrap());
                prop_assert_eq!(found, self.open.remove(&key));
            }
            Step::DeleteRange(from, to) => {
                self.writes(|store, tx| {
                    store
                        .delete_range(tx, from.as_deref(), to.as_deref())
                        .unwrap()
                });
                self.open.retain(|key, _| !inside(key, &from, &to));
            }
            Step::Gets(keys) => {
                let slices: Vec<_> = keys.iter().map(Vec::as_slice).collect();
                let mut found = vec![None; keys.len()];
                let mut tx = self.db.transaction().unwrap();
                store
                    .get_batch(&mut tx, &slices, |n, value| {
                        found[n] = value.map(<[u8]>::to_vec)
                    })
                    .unwrap();
                for (key, found) in keys.iter().zip(found) {
                    let one = store
                        .get(&mut tx, key, |value| value.map(<[u8]>::to_vec))
                        .unwrap();
                    prop_assert_eq!(&one, &self.open.get(key).cloned());
                    prop_assert_eq!(found, one);
                }
            }
            Step::Scan(from, to, reverse) => {
                let found = rows(
                    &store,
                    &mut self.db.transaction().unwrap(),
                    from.as_deref(),
                    to.as_deref(),
                    reverse,
                );
                let mut expected: Vec<_> = self
                    .open
                    .clone()
                    .into_iter()
                    .filter(|(key, _)| inside(key, &from, &to))
                    .collect();
                if reverse {
                    expected.reverse();
                }
                prop_assert_eq!(found, expected);
            }
            Step::Prefix(prefix) => {
                let mut found = Vec::new();
                let mut scan = store
                    .prefix_scan(&mut self.db.transaction().unwrap(), &prefix, None, false)
                    .unwrap();
                let mut visit = |key: &[u8], value: &[u8]| {
                    found.push((key.to_vec(), value.to_vec()));
                    holdfast_core::Step::Next
                };
                prop_assert!(!scan.for_each(&mut visit).unwrap());
                let expected: Vec<_> = self
                    .open
                    .clone()
                    .into_iter()
                    .filter(|(key, _)| key.starts_with(&prefix))
                    .collect();
                prop_assert_eq!(found, expected);
            }
            Step::Event(event) => {
                let commits = matches!(event, Event::Commit);
                self.apply(event);
                if commits {
                    prop_assert_eq!(self.db.uncommitted_bytes(), 0);
                }
            }
        }
        if !self.subject.transactional {
            self.committed = self.open.clone();
        }
        self.check_views()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn a_key_value_store_answers_as_the_model(
        steps in prop::collection::vec(step(), 1..100),
        persistent in prop::bool::weighted(0.7),
        transactional in prop::bool::weighted(0.7),
    ) {
        let spec = StoreSpec { persistent, transactional,
            ..StoreSpec::new("s", StoreKind::KeyValue) };
        let mut pair = Pair::new(spec, folder(), Model::new());
        for step in steps {
            pair.step(step)?;
        }
    }
}

#[test]
fn a_pending_range_delete_is_not_an_empty_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let (db, store) = open(dir.path(), &StoreSpec::new("s", StoreKind::KeyValue));
    store
        .put(&mut db.transaction().unwrap(), b"k", Some(b"v"))
        .unwrap();
    db.commit(OffsetChange::Keep).unwrap();
    let mut tx = db.begin().unwrap();
    store.delete_range(&mut tx, None, None).unwrap();
    assert!(!tx.is_empty());
    assert!(tx.uncommitted_bytes() > 0);
    assert!(store.uncommitted_bytes(&tx) > 0);
    db.commit_transaction(tx, holdfast_core::Commit::default())
        .unwrap();
    assert!(
        store
            .get(&mut db.begin().unwrap(), b"k", |found| found.is_none())
            .unwrap()
    );
}

#[test]
fn a_range_delete_is_a_change_of_every_row_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let (db, store) = open(dir.path(), &StoreSpec::new("s", StoreKind::KeyValue));
    let mut tx = db.begin().unwrap();
    for key in [b"a", b"b", b"c", b"d"] {
        store.put(&mut tx, key, Some(b"1")).unwrap();
    }
    db.commit_transaction(tx, holdfast_core::Commit::default())
        .unwrap();
    let mut tx = db.begin().unwrap();
    store.delete_range(&mut tx, Some(b"b"), None).unwrap();
    store.put(&mut tx, b"c", Some(b"2")).unwrap();
    for _ in 0..2 {
        let mut changes = Vec::new();
        let mut note = |row: holdfast_core::VersionRow<'_>| {
            changes.push((row.key.to_vec(), row.value.map(<[u8]>::to_vec)));
            Ok(())
        };
        db.for_each_change("s", &mut tx, &mut note).unwrap();
        assert_eq!(
            changes,
            [
                (b"b".to_vec(), None),
                (b"c".to_vec(), Some(b"2".to_vec())),
                (b"d".to_vec(), None)
            ]
        );
    }
    db.commit_transaction(tx, holdfast_core::Commit::default())
        .unwrap();
    let found: Vec<_> = rows(&store, &mut db.begin().unwrap(), None, None, false)
        .into_iter()
        .map(|(key, _)| key)
        .collect();
    assert_eq!(found, [b"a", b"c"]);
}

#[test]
fn range_delete_of_many_rows_takes_constant_memory() {
    let dir = tempfile::tempdir().unwrap();
    let (db, store) = open(dir.path(), &StoreSpec::new("s", StoreKind::KeyValue));
    let mut tx = db.begin().unwrap();
    for n in 0..10_000u32 {
        store.put(&mut tx, &n.to_be_bytes(), Some(b"v")).unwrap();
    }
    db.commit_transaction(tx, holdfast_core::Commit::default())
        .unwrap();
    let mut tx = db.begin().unwrap();
    store
        .delete_range(&mut tx, Some(&100u32.to_be_bytes()), None)
        .unwrap();
    assert!(
        tx.uncommitted_bytes() < 1000,
        "{} bytes",
        tx.uncommitted_bytes()
    );
    store
        .put(&mut tx, &200u32.to_be_bytes(), Some(b"w"))
        .unwrap();
    db.commit_transaction(tx, holdfast_core::Commit::default())
        .unwrap();
    db.close().unwrap();
    let (db, store) = open(dir.path(), &StoreSpec::new("s", StoreKind::KeyValue));
    let found = rows(&store, &mut db.begin().unwrap(), None, None, false);
    assert_eq!(found.len(), 101);
    assert_eq!(found[100], (200u32.to_be_bytes().to_vec(), b"w".to_vec()));
}
