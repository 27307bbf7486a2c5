//! Transactions that outgrow their memory: spilled, read back, committed, rolled back, interrupted.
#![allow(clippy::unwrap_used, reason = "a test")]

use holdfast_core::failpoint::{Action, Failpoint};
use holdfast_core::{
    Commit, Durability, ErrorKind, Offset, OffsetChange, Op, StoreKind, StoreSpec, Task, TaskOptions, Timestamp, TopicPartition,
    Transaction, TransactionMechanism, WindowPut, WindowedKey,
};
use parking_lot::{Mutex, MutexGuard};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Failpoints are the process's, so tests take turns.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock()
}

fn directory() -> tempfile::TempDir {
    // Every spill syncs files; memory makes that cheap.
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn options(durability: Durability, uncommitted_max_bytes: i64) -> TaskOptions {
    TaskOptions { durability, uncommitted_max_bytes, ..TaskOptions::default() }
}

fn specs() -> Vec<StoreSpec> {
    let versioned = StoreKind::Versioned { history_retention: 1_000_000, segment_interval: 1_000 };
    let kv = |name: &str| StoreSpec::new(name, StoreKind::KeyValue);
    vec![
        kv("kv"),
        StoreSpec::new("rates", versioned),
        StoreSpec { transactional: false, ..kv("direct") },
        StoreSpec { persistent: false, ..kv("memory") },
    ]
}

fn open(path: &Path, limit: i64) -> Arc<Task> {
    Task::open(path, &specs(), options(Durability::Sync, limit)).unwrap()
}

fn partition() -> TopicPartition {
    TopicPartition { topic: "log".into(), partition: 0 }
}

fn at(offset: i64) -> OffsetChange {
    OffsetChange::Set(vec![(partition(), Some(Offset(offset)))])
}

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn rows(task: &Task, tx: &mut Transaction) -> Rows {
    let mut rows = Rows::new();
    let mut scan = task.key_value("kv").unwrap().range(tx, None, None, false).unwrap();
    let mut visit = |key: &[u8], value: &[u8]| {
        assert!(rows.insert(key.to_vec(), value.to_vec()).is_none());
        holdfast_core::Step::Next
    };
    scan.for_each(&mut visit).unwrap();
    rows
}

fn put(task: &Task, key: &[u8], value: Option<&[u8]>) {
    let mut tx = task.transaction().unwrap();
    task.key_value("kv").unwrap().put(&mut tx, key, value).unwrap();
    task.write_through(&mut tx).unwrap();
}

fn folder_is_empty(path: &Path) -> bool {
    std::fs::read_dir(path).map_or(true, |mut entries| entries.next().is_none())
}

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
    // Of many lengths, some prefixes of others.
    [b"k".as_slice(), &[n / 3], &vec![7; usize::from(n % 3)]].concat()
}

fn bytes(value: Option<u8>) -> Option<Vec<u8>> {
    value.map(|value| vec![value; usize::from(value) * 8])
}

fn stage(task: &Task, tx: &mut Transaction, rows: &mut Rows, puts: &[(u8, Option<u8>)]) {
    let store = task.key_value("kv").unwrap();
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

    /// A transaction that spills at every row, now and then, or never answers as a map; readers keep what they saw.
    #[test]
    fn a_spilling_transaction_answers_as_a_map(
        steps in prop::collection::vec(step(), 1..40),
        limit in prop::sample::select(vec![0, 17_500, 20_000, -1]),
        sync in any::<bool>(),
        small in any::<bool>(),
    ) {
            let _turn = turn();
        let dir = directory();
        let durability = if sync { Durability::Sync } else { Durability::Changelog };
        let mechanism = if small { TransactionMechanism::SecondaryStore } else { TransactionMechanism::Auto };
        let options = TaskOptions { mechanism, ..options(durability, limit) };
        let mut task = Task::open(dir.path(), &specs(), options.clone()).unwrap();
        let (mut staged, mut committed, mut commits) = (Rows::new(), Rows::new(), 0);
        let mut views: Vec<(Transaction, Rows)> = Vec::new();
        for step in steps {
            match step {
                Step::Puts(puts) => stage(&task, &mut task.transaction().unwrap(), &mut staged, &puts),
                Step::Gets(asked) => {
                    let keys: Vec<_> = asked.iter().map(|n| key(*n)).collect();
                    let slices: Vec<_> = keys.iter().map(Vec::as_slice).collect();
                    let mut found = vec![None; keys.len()];
                    let mut tx = task.transaction().unwrap();
                    let store = task.key_value("kv").unwrap();
                    store.get_batch(&mut tx, &slices, |n, value| found[n] = value.map(<[u8]>::to_vec)).unwrap();
                    for (key, found) in keys.iter().zip(found) {
                        prop_assert_eq!(found.as_ref(), staged.get(key));
                        let one = store.get(&mut tx, key, |value| value.map(<[u8]>::to_vec)).unwrap();
                        prop_assert_eq!(found, one);
                    }
                }
                Step::Walk(from, reverse) => {
                    let from = key(from);
                    let (low, high) = if reverse { (None, Some(from.as_slice())) } else { (Some(from.as_slice()), None) };
                    let mut found = Vec::new();
                    let mut scan = task.key_value("kv").unwrap().range(&mut task.transaction().unwrap(), low, high, reverse).unwrap();
                    let mut visit = |key: &[u8], value: &[u8]| {
                        found.push((key.to_vec(), value.to_vec()));
                        holdfast_core::Step::Pause
                    };
                    while scan.for_each(&mut visit).unwrap() {}
                    let inside = |key: &Vec<u8>| if reverse { *key <= from } else { *key >= from };
                    let mut expected: Vec<_> = staged.clone().into_iter().filter(|(key, _)| inside(key)).collect();
                    if reverse {
                        expected.reverse();
                    }
                    prop_assert_eq!(found, expected);
                }
                Step::Clear(from, to) => {
                    let (from, to) = (key(from), key(to));
                    task.key_value("kv").unwrap().delete_range(&mut task.transaction().unwrap(), Some(&from), Some(&to)).unwrap();
                    staged.retain(|key, _| *key < from || *key > to);
                }
                Step::Private(puts) => {
                    let (mut tx, mut rows) = (task.begin().unwrap(), committed.clone());
                    stage(&task, &mut tx, &mut rows, &puts);
                    let mut changes = BTreeMap::new();
                    task.for_each_change("kv", &mut tx, &mut |row| {
                        assert!(changes.insert(row.key.to_vec(), row.value.map(<[u8]>::to_vec)).is_none());
                        Ok(())
                    }).unwrap();
                    let expected: BTreeMap<_, _> = puts.iter().map(|(n, value)| (key(*n), bytes(*value))).collect();
                    prop_assert_eq!(changes, expected);
                    // Else the task's own transaction would stand on what is no more.
                    if staged == committed {
                        task.rollback().unwrap();
                        task.commit_transaction(tx, Commit::default()).unwrap();
                        committed.clone_from(&rows);
                        staged = rows;
                    }
                }
                Step::Commit => {
                    commits += 1;
                    task.commit(at(commits)).unwrap();
                    committed.clone_from(&staged);
                    prop_assert_eq!(task.uncommitted_bytes(), 0);
                }
                Step::Rollback => {
                    task.rollback().unwrap();
                    staged.clone_from(&committed);
                }
                Step::Reopen => {
                    views.clear();
                    task.close().unwrap();
                    task = Task::open(dir.path(), &specs(), options.clone()).unwrap();
                    staged.clone_from(&committed);
                    let offset = task.store_offset("kv", &partition()).unwrap();
                    prop_assert_eq!(offset.map_or(0, |offset| offset.0), commits);
                }
                Step::Compact => {
                    task.flush(true).unwrap();
                    task.compact("kv").unwrap();
                }
                Step::Freeze => {
                    views.push((task.transaction().unwrap().reader(), staged.clone()));
                    views.push((task.begin().unwrap(), committed.clone()));
                }
                Step::Check => {
                    for (mut view, expected) in views.drain(..) {
                        prop_assert_eq!(rows(&task, &mut view), expected);
                    }
                    prop_assert_eq!(rows(&task, &mut task.transaction().unwrap()), staged.clone());
                    prop_assert_eq!(rows(&task, &mut task.begin().unwrap()), committed.clone());
                }
            }
        }
        drop(views);
        task.rollback().unwrap();
        prop_assert!(folder_is_empty(&dir.path().join("+uncommitted")));
        prop_assert!(!dir.path().join("+commit").exists());
    }
}

/// All stores of `specs` in one transaction, as offset `n`; what it writes follows from `n`.
fn transaction(task: &Task, n: i64) {
    let mut tx = task.transaction().unwrap();
    for i in 0..10u8 {
        let value = [n as u8, i];
        for store in ["kv", "direct", "memory"] {
            let deleted = (i + n as u8).is_multiple_of(5);
            task.key_value(store).unwrap().put(&mut tx, &[i], (!deleted).then_some(&value[..])).unwrap();
        }
        task.write_through(&mut tx).unwrap();
        let rates = task.versioned("rates").unwrap();
        // Late ones, too.
        rates.put(&mut tx, &[i % 4], Some(&value), Timestamp(n * 100 + i64::from(i ^ 5))).unwrap();
    }
    tx.observe(TopicPartition { topic: "input".into(), partition: 3 }, Offset(n)).unwrap();
}

/// What all stores hold that survive a reopen, and offset and position.
fn state(task: &Task, tx: &mut Transaction) -> Vec<String> {
    let mut state = vec![format!("{:?} {:?}", task.store_offset("kv", &partition()).unwrap(), task.position())];
    let mut text = |store: &str, key: &[u8], value: &[u8], times: &str| state.push(format!("{store} {key:?} {value:?} {times}"));
    for (key, value) in rows(task, tx) {
        text("kv", &key, &value, "");
    }
    let rates = task.versioned("rates").unwrap();
    text("rates", &[], &[], &format!("{:?}", rates.stream_time(tx)));
    let mut scan = rates.versions_range(tx, None, None, Timestamp(0), Timestamp(i64::MAX)).unwrap();
    let mut version = |key: &[u8], v: holdfast_core::Version<'_>| {
        text("rates", key, v.value, &format!("{:?} {:?}", v.timestamp, v.valid_to));
        true
    };
    scan.for_each(&mut version).unwrap();
    let mut scan = rates.scan(tx, None).unwrap();
    let mut newest = |key: &[u8], v: holdfast_core::Version<'_>| {
        text("newest rates", key, v.value, &format!("{:?} {:?}", v.timestamp, v.valid_to));
        true
    };
    scan.for_each(&mut newest).unwrap();
    state
}

fn committed(task: &Task) -> Vec<String> {
    state(task, &mut task.begin().unwrap())
}

/// The state after some transactions that never spilled.
fn expected(durability: Durability, last: i64) -> Vec<String> {
    let dir = directory();
    let task = Task::open(dir.path(), &specs(), options(durability, -1)).unwrap();
    for n in 1..=last {
        transaction(&task, n);
        task.commit(at(n)).unwrap();
    }
    committed(&task)
}

/// Before the commit file there is no commit, behind it there is; whoever comes next ends it.
#[test]
fn a_commit_that_is_interrupted_goes_back_or_forward_as_a_whole() {
    let _turn = turn();
    use Failpoint::{AfterCommit, AfterCommitFile, BeforeCommit, BeforeCommitFile, BeforeCommitFileRemoval, BeforeFlush, BetweenIngests};
    let points = [
        (BeforeFlush, 0, false),
        (BeforeCommitFile, 0, false),
        (AfterCommitFile, 0, true),
        (BetweenIngests, 0, true),
        (BetweenIngests, 1, true),
        (BetweenIngests, 2, true),
        (BeforeCommit, 0, true),
        (AfterCommit, 0, true),
        (BeforeFlush, 1, true),
        (BeforeCommitFileRemoval, 0, true),
    ];
    for durability in [Durability::Sync, Durability::Changelog] {
        let (before, after, further) = (expected(durability, 1), expected(durability, 2), expected(durability, 3));
        for (point, passed, forward) in points {
            for (action, by_reopen) in [(Action::Error, false), (Action::Error, true), (Action::Panic, false)] {
                let what = format!("{point:?} {passed} {action:?} {durability:?}, by reopen: {by_reopen}");
                let dir = directory();
                let options = options(durability, 0);
                let task = Task::open(dir.path(), &specs(), options.clone()).unwrap();
                transaction(&task, 1);
                task.commit(at(1)).unwrap();
                assert_eq!(committed(&task), before, "{what}");
                transaction(&task, 2);
                point.arm(action, passed);
                let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| task.commit(at(2))));
                assert!(Failpoint::disarm(), "{what}: not reached");
                assert!(!matches!(result, Ok(Ok(()))), "{what}");
                let task = if by_reopen {
                    drop(task);
                    Task::open(dir.path(), &specs(), options).unwrap()
                } else {
                    let _ = task.recover().unwrap();
                    task
                };
                assert_eq!(&committed(&task), if forward { &after } else { &before }, "{what}");
                assert!(!dir.path().join("+commit").exists(), "{what}");
                if !forward {
                    transaction(&task, 2);
                    task.commit(at(2)).unwrap();
                }
                transaction(&task, 3);
                task.commit(at(3)).unwrap();
                assert_eq!(committed(&task), further, "{what}");
            }
        }
    }
}

#[test]
fn until_an_interrupted_commit_is_ended_the_task_takes_no_work() {
    let _turn = turn();
    let dir = directory();
    let task = open(dir.path(), 0);
    transaction(&task, 1);
    let old = committed(&task);
    Failpoint::BetweenIngests.arm(Action::Error, 0);
    let error = task.commit(at(1)).unwrap_err();
    assert!(error.to_string().contains("rollback(), recover() or the next open"), "{error}");
    assert_eq!(committed(&task), old, "readers stay on the last state");
    let refused = [
        task.transaction().map(drop).unwrap_err(),
        task.commit(OffsetChange::Keep).unwrap_err(),
        task.restore("kv", &[], OffsetChange::Keep).unwrap_err(),
        task.commit_transaction(task.begin().unwrap(), Commit::default()).unwrap_err(),
        task.checkpoint(&dir.path().join("copy")).unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.kind(), ErrorKind::InvalidState);
        assert!(error.to_string().contains("recover()"), "{error}");
    }
    assert_eq!(task.recover().unwrap(), [(partition(), Offset(1))]);
    assert_ne!(committed(&task), old);
    task.checkpoint(&dir.path().join("copy")).unwrap();
}

#[test]
fn a_commit_that_failed_before_its_commit_file_changes_nothing_and_waits_for_a_rollback() {
    let _turn = turn();
    let dir = directory();
    let task = open(dir.path(), 0);
    put(&task, b"a", Some(b"1"));
    task.commit(at(1)).unwrap();
    put(&task, b"b", Some(b"2"));
    put(&task, b"c", Some(b"3"));
    Failpoint::BeforeCommitFile.arm(Action::Error, 0);
    assert_eq!(task.commit(at(2)).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(task.transaction().map(drop).unwrap_err().kind(), ErrorKind::InvalidState);
    assert_eq!(task.recover().unwrap(), [(partition(), Offset(1))]);
    assert_eq!(rows(&task, &mut task.transaction().unwrap()).len(), 1);
}

#[test]
fn a_spill_that_failed_leaves_the_transaction_as_it_was() {
    let _turn = turn();
    for point in [Failpoint::BeforeSpill, Failpoint::AfterSpill] {
        let dir = directory();
        let task = open(dir.path(), 0);
        let store = task.key_value("kv").unwrap();
        put(&task, b"a", Some(b"1"));
        point.arm(Action::Error, 0);
        let error = store.put(&mut task.transaction().unwrap(), b"b", Some(b"2")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert_eq!(rows(&task, &mut task.transaction().unwrap()).len(), 1);
        put(&task, b"b", Some(b"2"));
        assert_eq!(rows(&task, &mut task.transaction().unwrap()).len(), 2);
        task.commit(at(1)).unwrap();
        assert_eq!(rows(&task, &mut task.begin().unwrap()).len(), 2);
    }
}

#[test]
fn a_spill_that_failed_leaves_the_stream_time_as_it_was() {
    let _turn = turn();
    let window = |retain_duplicates| StoreKind::Window { retention: 100, window_size: 1, retain_duplicates, timestamped: false };
    let kinds = [window(false), window(true), StoreKind::Session { retention: 100 }];
    for kind in kinds {
        let dir = directory();
        let specs = [StoreSpec::new("s", kind)];
        let task = Task::open(dir.path(), &specs, options(Durability::Sync, 0)).unwrap();
        let put = |time: i64| {
            let mut tx = task.transaction().unwrap();
            if let Ok(store) = task.window("s") {
                return store.put(&mut tx, WindowPut { key: b"k", value: Some(b"v"), start: Timestamp(time), timestamp: None });
            }
            let session = WindowedKey { key: b"k", start: Timestamp(time), end: Timestamp(time) };
            task.session("s").unwrap().put(&mut tx, session, Some(b"v"))
        };
        // Also where nothing is staged: the transaction stays one without writes.
        let too_large = vec![0; 1 << 30];
        if let Ok(store) = task.window("s") {
            let put = WindowPut { key: b"k", value: Some(&too_large), start: Timestamp(1_000_000), timestamp: None };
            assert_eq!(store.put(&mut task.transaction().unwrap(), put).unwrap_err().kind(), ErrorKind::InvalidValue);
            assert!(task.transaction().unwrap().is_empty(), "{:?}", specs[0].kind);
        }
        put(10).unwrap();
        Failpoint::BeforeSpill.arm(Action::Error, 0);
        assert_eq!(put(1_000_000).unwrap_err().kind(), ErrorKind::Io);
        for _ in 0..2 {
            assert_eq!(task.stream_time("s", &task.transaction().unwrap()).unwrap(), Some(Timestamp(10)), "{:?}", specs[0].kind);
            task.commit(at(1)).unwrap();
        }
        put(1_000_000).unwrap();
        assert_eq!(task.stream_time("s", &task.transaction().unwrap()).unwrap(), Some(Timestamp(1_000_000)));
    }
}

#[test]
fn scans_and_readers_keep_what_they_saw_through_spills_commits_and_rollbacks() {
    let _turn = turn();
    let dir = directory();
    let task = open(dir.path(), 0);
    let store = task.key_value("kv").unwrap();
    for i in 0..50u8 {
        put(&task, &[i], Some(b"old"));
    }
    task.commit(at(1)).unwrap();
    for i in 0..50u8 {
        put(&task, &[i], (i % 2 == 0).then_some(b"new"));
    }
    let mut reader = task.transaction().unwrap().reader();
    let seen = rows(&task, &mut reader);
    assert_eq!(seen.len(), 25);
    let mut scan = store.range(&mut task.transaction().unwrap(), None, None, true).unwrap();
    let mut found = Rows::new();
    let mut visit = |key: &[u8], value: &[u8]| {
        found.insert(key.to_vec(), value.to_vec());
        if key[0] > 30 { holdfast_core::Step::Next } else { holdfast_core::Step::Pause }
    };
    assert!(scan.for_each(&mut visit).unwrap());
    for i in 0..60u8 {
        put(&task, &[i], Some(b"newer"));
    }
    task.rollback().unwrap();
    assert_eq!(rows(&task, &mut reader), seen);
    for i in 0..60u8 {
        put(&task, &[i], None);
    }
    task.commit(at(2)).unwrap();
    assert_eq!(rows(&task, &mut reader), seen);
    while scan.for_each(&mut visit).unwrap() {}
    assert_eq!(found, seen);
    assert!(rows(&task, &mut task.begin().unwrap()).is_empty());

    // What they hold lies in files; the last to hold them deletes them.
    let uncommitted = dir.path().join("+uncommitted");
    assert!(!folder_is_empty(&uncommitted));
    drop((reader, scan));
    assert!(folder_is_empty(&uncommitted));
}

#[test]
fn a_large_batch_spills_on_its_way_and_memory_stays_small() {
    let _turn = turn();
    let dir = directory();
    let limit = 256 << 10;
    let task = open(dir.path(), limit);
    let rates = task.versioned("rates").unwrap();
    let keys: Vec<_> = (0..50_000u32).map(u32::to_be_bytes).collect();
    let ops: Vec<_> = keys.iter().map(|key| Op::Put { key, value: Some(key), timestamp: Timestamp(5) }).collect();
    let mut tx = task.transaction().unwrap();
    let (mut seen, mut most) = (0, 0);
    rates.apply_batch(&mut tx, &ops, true, &mut |n, _| seen += usize::from(n == seen)).unwrap();
    assert_eq!(seen, ops.len(), "rows are numbered through");
    assert!(tx.has_spilled());
    let store = task.key_value("kv").unwrap();
    for key in &keys {
        store.put(&mut tx, key, Some(&[7; 100])).unwrap();
        most = most.max(tx.uncommitted_bytes());
    }
    // A layer grows by chunks of up to 1 MiB.
    assert!(most < limit as usize + (2 << 20), "{most} bytes at most");
    drop(tx);
    task.commit(at(1)).unwrap();
    let mut view = task.begin().unwrap();
    assert_eq!(rows(&task, &mut view).len(), keys.len());
    let mut versions = 0;
    let mut scan = rates.scan(&mut view, Some(Timestamp(5))).unwrap();
    scan.for_each(&mut |_, _| {
        versions += 1;
        true
    })
    .unwrap();
    assert_eq!(versions, keys.len());
}

#[test]
fn only_what_the_mechanism_says_spills() {
    let _turn = turn();
    for (mechanism, limit, spills) in [
        (TransactionMechanism::Auto, 64 << 20, false),
        (TransactionMechanism::Auto, 100_000, true),
        (TransactionMechanism::Auto, -1, false),
        (TransactionMechanism::IndexedBatch, 100_000, false),
        (TransactionMechanism::SecondaryStore, 64 << 20, true),
        (TransactionMechanism::SecondaryStore, -1, true),
    ] {
        let dir = directory();
        let options = TaskOptions { mechanism, ..options(Durability::Changelog, limit) };
        let task = Task::open(dir.path(), &specs(), options).unwrap();
        for store in ["kv", "direct", "memory"] {
            let mut tx = task.transaction().unwrap();
            for i in 0..4_000u32 {
                task.key_value(store).unwrap().put(&mut tx, &i.to_be_bytes(), Some(&[1; 1000])).unwrap();
            }
            assert_eq!(tx.has_spilled(), spills && store == "kv", "{mechanism:?} {limit} {store}");
            drop(tx);
            task.rollback().unwrap();
        }
    }
}

#[test]
fn a_checkpoint_has_nothing_of_an_open_transaction() {
    let _turn = turn();
    let dir = directory();
    let task = open(&dir.path().join("task"), 0);
    transaction(&task, 1);
    task.commit(at(1)).unwrap();
    transaction(&task, 2);
    assert!(task.transaction().unwrap().has_spilled());
    let copy = dir.path().join("copy");
    task.checkpoint(&copy).unwrap();
    assert!(!copy.join("+uncommitted").exists());
    let copied = open(&copy, 0);
    assert_eq!(committed(&copied), committed(&task));
    task.commit(at(2)).unwrap();
    assert_eq!(committed(&task), expected(Durability::Sync, 2));
}

#[test]
fn a_close_drops_what_was_spilled_and_an_open_what_a_crash_left() {
    let _turn = turn();
    let dir = directory();
    let uncommitted = dir.path().join("+uncommitted");
    let task = open(dir.path(), 0);
    transaction(&task, 1);
    let mut reader = task.transaction().unwrap().reader();
    let mut scan = task.key_value("kv").unwrap().range(&mut reader, None, None, false).unwrap();
    task.close().unwrap();
    let closed = task.key_value("kv").unwrap().get(&mut reader, b"k", |_| ()).unwrap_err();
    assert_eq!(closed.kind(), ErrorKind::StoreClosed);
    assert_eq!(scan.for_each(&mut |_, _| holdfast_core::Step::Next).unwrap_err().kind(), ErrorKind::StoreClosed);
    drop((scan, reader));
    assert!(folder_is_empty(&uncommitted));

    // As a crash leaves it.
    std::fs::create_dir_all(uncommitted.join("7")).unwrap();
    std::fs::write(uncommitted.join("7/000012.sst"), b"rows").unwrap();
    std::fs::create_dir_all(dir.path().join("+commit")).unwrap();
    std::fs::write(dir.path().join("+commit/0-0.sst"), b"rows").unwrap();
    std::fs::write(dir.path().join("+commit/COMMIT.draft"), b"half of it").unwrap();
    let task = open(dir.path(), 0);
    assert!(folder_is_empty(&uncommitted));
    assert!(!dir.path().join("+commit").exists());
    assert!(rows(&task, &mut task.transaction().unwrap()).is_empty());
}

#[test]
fn a_damaged_commit_is_an_error_that_names_the_file() {
    let _turn = turn();
    for damaged in ["COMMIT", "0-0.sst"] {
        let dir = directory();
        let task = open(dir.path(), 0);
        transaction(&task, 1);
        Failpoint::AfterCommitFile.arm(Action::Error, 0);
        task.commit(at(1)).unwrap_err();
        drop(task);
        let file = dir.path().join("+commit").join(damaged);
        let bytes = std::fs::read(&file).unwrap();
        std::fs::write(&file, &bytes[..bytes.len() - 1]).unwrap();
        let error = Task::open(dir.path(), &specs(), options(Durability::Sync, 0)).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::StoreCorrupted, "{error}");
        assert!(error.to_string().contains(damaged), "{error}");
        std::fs::write(&file, &bytes).unwrap();
        assert_eq!(committed(&open(dir.path(), 0)), expected(Durability::Sync, 1));
    }
}
