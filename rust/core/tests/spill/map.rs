//! A spilling transaction reads and writes like a map.

use crate::support::{Rows, at, directory, folder_is_empty, options, partition, rows, specs, turn};
use holdfast_core::{
    Commit, Database, DatabaseOptions, Durability, Transaction, TransactionMechanism,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Step {
    Puts(Vec<(u8, Option<u8>)>),
    Gets(Vec<u8>),
    Walk(u8, bool),
    Clear(u8, u8),
    Private(Vec<(u8, Option<u8>)>),
    Commit,
    Rollback,
    Reopen,
    Compact,
    Freeze,
    Check,
}

fn step() -> impl Strategy<Value = Step> {
    let puts = || prop::collection::vec((0u8..24, prop::option::of(any::<u8>())), 1..14);
    prop_oneof![
        8 => puts().prop_map(Step::Puts),
        2 => prop::collection::vec(0u8..26, 0..20).prop_map(Step::Gets),
        3 => (0u8..26, any::<bool>()).prop_map(|(from, reverse)| Step::Walk(from, reverse)),
        1 => (0u8..26, 0u8..26).prop_map(|(from, to)| Step::Clear(from.min(to), from.max(to))),
        1 => puts().prop_map(Step::Private),
        3 => Just(Step::Commit),
        1 => Just(Step::Rollback),
        1 => Just(Step::Reopen),
        1 => Just(Step::Compact),
        2 => Just(Step::Freeze),
        2 => Just(Step::Check),
    ]
}

fn key(n: u8) -> Vec<u8> {
    // Keys have three lengths, and some are prefixes of others.
    [b"k".as_slice(), &[n / 3], &vec![7; usize::from(n % 3)]].concat()
}

fn bytes(value: Option<u8>) -> Option<Vec<u8>> {
    value.map(|value| vec![value; usize::from(value) * 8])
}

fn stage(db: &Database, tx: &mut Transaction, rows: &mut Rows, puts: &[(u8, Option<u8>)]) {
    let store = db.key_value("kv").unwrap();
    for (n, value) in puts {
        let (key, value) = (key(*n), bytes(*value));
        store.put(tx, &key, value.as_deref()).unwrap();
        match value {
            Some(value) => rows.insert(key, value),
            None => rows.remove(&key),
        };
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// A transaction returns what a map returns, whether it spills at every row, at some rows or
    /// never. The views of readers do not change.
    #[test]
    fn spilling_transaction_reads_like_a_map(
        steps in prop::collection::vec(step(), 1..40),
        limit in prop::sample::select(vec![0, 4_000, 9_000, -1]),
        sync in any::<bool>(),
        small in any::<bool>(),
    ) {
        let _turn = turn();
        let dir = directory();
        let durability = if sync { Durability::Sync } else { Durability::Changelog };
        let mechanism =
            if small { TransactionMechanism::SecondaryStore } else { TransactionMechanism::Auto };
        let options = DatabaseOptions { mechanism, ..options(durability, limit) };
        let mut db = Database::open(dir.path(), &specs(), options.clone()).unwrap();
        let (mut staged, mut committed, mut commits) = (Rows::new(), Rows::new(), 0);
        let mut views: Vec<(Transaction, Rows)> = Vec::new();
        for step in steps {
            match step {
                Step::Puts(puts) => stage(&db, &mut db.transaction().unwrap(), &mut staged,
                    &puts),
                Step::Gets(asked) => {
                    let keys: Vec<_> = asked.iter().map(|n| key(*n)).collect();
                    let slices: Vec<_> = keys.iter().map(Vec::as_slice).collect();
                    let mut found = vec![None; keys.len()];
                    let mut tx = db.transaction().unwrap();
                    let store = db.key_value("kv").unwrap();
                    store.get_batch(&mut tx, &slices, |n, value| found[n] =
                        value.map(<[u8]>::to_vec)).unwrap();
                    for (key, found) in keys.iter().zip(found) {
                        prop_assert_eq!(found.as_ref(), staged.get(key));
                        let one = store.get(&mut tx, key, |value| value.map(<[u8]>::to_vec))
                            .unwrap();
                        prop_assert_eq!(found, one);
                    }
                }
                Step::Walk(from, reverse) => {
                    let from = key(from);
                    let bound = Some(from.as_slice());
                    let (low, high) = if reverse { (None, bound) } else { (bound, None) };
                    let mut found = Vec::new();
                    let mut scan = db.key_value("kv").unwrap()
                        .range(&mut db.transaction().unwrap(), low, high, reverse).unwrap();
                    let mut visit = |key: &[u8], value: &[u8]| {
                        found.push((key.to_vec(), value.to_vec()));
                        holdfast_core::Step::Pause
                    };
                    while scan.for_each(&mut visit).unwrap() {}
                    let inside = |key: &Vec<u8>| if reverse { *key <= from } else { *key >= from };
                    let mut expected: Vec<_> = staged.clone().into_iter()
                        .filter(|(key, _)| inside(key)).collect();
                    if reverse {
                        expected.reverse();
                    }
                    prop_assert_eq!(found, expected);
                }
                Step::Clear(from, to) => {
                    let (from, to) = (key(from), key(to));
                    db.key_value("kv").unwrap()
                        .delete_range(&mut db.transaction().unwrap(), Some(&from), Some(&to))
                            .unwrap();
                    staged.retain(|key, _| *key < from || *key > to);
                }
                Step::Private(puts) => {
                    let (mut tx, mut rows) = (db.begin().unwrap(), committed.clone());
                    stage(&db, &mut tx, &mut rows, &puts);
                    let mut changes = BTreeMap::new();
                    db.for_each_change("kv", &mut tx, &mut |row| {
                        assert!(changes.insert(row.key.to_vec(), row.value.map(<[u8]>::to_vec))
                            .is_none());
                        Ok(())
                    }).unwrap();
                    let expected: BTreeMap<_, _> = puts.iter()
                        .map(|(n, value)| (key(*n), bytes(*value))).collect();
                    prop_assert_eq!(changes, expected);
                    // Commits only if nothing is staged. Otherwise the database's own transaction
                    // would be based on an older state than this commit.
                    if staged == committed {
                        db.rollback().unwrap();
                        db.commit_transaction(tx, Commit::default()).unwrap();
                        committed.clone_from(&rows);
                        staged = rows;
                    }
                }
                Step::Commit => {
                    commits += 1;
                    db.commit(at(commits)).unwrap();
                    committed.clone_from(&staged);
                    prop_assert_eq!(db.uncommitted_bytes(), 0);
                }
                Step::Rollback => {
                    db.rollback().unwrap();
                    staged.clone_from(&committed);
                }
                Step::Reopen => {
                    views.clear();
                    db.close().unwrap();
                    db = Database::open(dir.path(), &specs(), options.clone()).unwrap();
                    staged.clone_from(&committed);
                    let offset = db.store_offset("kv", &partition()).unwrap();
                    prop_assert_eq!(offset.map_or(0, |offset| offset.0), commits);
                }
                Step::Compact => {
                    db.flush(true).unwrap();
                    db.compact("kv").unwrap();
                }
                Step::Freeze => {
                    views.push((db.transaction().unwrap().reader(), staged.clone()));
                    views.push((db.begin().unwrap(), committed.clone()));
                }
                Step::Check => {
                    for (mut view, expected) in views.drain(..) {
                        prop_assert_eq!(rows(&db, &mut view), expected);
                    }
                    prop_assert_eq!(rows(&db, &mut db.transaction().unwrap()), staged.clone());
                    prop_assert_eq!(rows(&db, &mut db.begin().unwrap()), committed.clone());
                }
            }
        }
        drop(views);
        db.rollback().unwrap();
        prop_assert!(folder_is_empty(&dir.path().join("+uncommitted")));
        prop_assert!(!dir.path().join("+commit").exists());
    }
}
