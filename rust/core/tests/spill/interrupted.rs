//! Commits of spilled transactions, and spills, that end half-way.

use crate::support::{
    at, committed, directory, expected, open, options, partition, put, rows, specs, transaction,
    turn,
};
use holdfast_core::failpoint::{Action, Failpoint};
use holdfast_core::{
    Commit, Durability, ErrorKind, Offset, OffsetChange, StoreKind, StoreSpec, Task, Timestamp,
    WindowPut, WindowedKey,
};

/// Before the commit file there is no commit, behind it there is; whoever comes next ends it.
#[test]
fn a_commit_that_is_interrupted_goes_back_or_forward_as_a_whole() {
    let _turn = turn();
    use Failpoint::{
        AfterCommit, AfterCommitFile, BeforeCommit, BeforeCommitFile, BeforeCommitFileRemoval,
        BeforeFlush, BetweenIngests,
    };
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
        let (before, after, further) = (
            expected(durability, 1),
            expected(durability, 2),
            expected(durability, 3),
        );
        for (point, passed, forward) in points {
            for (action, by_reopen) in [
                (Action::Error, false),
                (Action::Error, true),
                (Action::Panic, false),
            ] {
                let what =
                    format!("{point:?} {passed} {action:?} {durability:?}, by reopen: {by_reopen}");
                let dir = directory();
                let options = options(durability, 0);
                let task = Task::open(dir.path(), &specs(), options.clone()).unwrap();
                transaction(&task, 1);
                task.commit(at(1)).unwrap();
                assert_eq!(committed(&task), before, "{what}");
                transaction(&task, 2);
                point.arm(action, passed);
                let result =
                    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| task.commit(at(2))));
                assert!(Failpoint::disarm(), "{what}: not reached");
                assert!(!matches!(result, Ok(Ok(()))), "{what}");
                let task = if by_reopen {
                    drop(task);
                    Task::open(dir.path(), &specs(), options).unwrap()
                } else {
                    let _ = task.recover().unwrap();
                    task
                };
                assert_eq!(
                    &committed(&task),
                    if forward { &after } else { &before },
                    "{what}"
                );
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
    assert!(
        error
            .to_string()
            .contains("rollback(), recover() or the next open"),
        "{error}"
    );
    assert_eq!(committed(&task), old, "readers stay on the last state");
    let refused = [
        task.transaction().map(drop).unwrap_err(),
        task.commit(OffsetChange::Keep).unwrap_err(),
        task.restore("kv", &[], OffsetChange::Keep).unwrap_err(),
        task.commit_transaction(task.begin().unwrap(), Commit::default())
            .unwrap_err(),
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
    assert_eq!(
        task.transaction().map(drop).unwrap_err().kind(),
        ErrorKind::InvalidState
    );
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
        let error = store
            .put(&mut task.transaction().unwrap(), b"b", Some(b"2"))
            .unwrap_err();
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
    let window = |retain_duplicates| StoreKind::Window {
        retention: 100,
        window_size: 1,
        retain_duplicates,
        timestamped: false,
    };
    let kinds = [
        window(false),
        window(true),
        StoreKind::Session { retention: 100 },
    ];
    for kind in kinds {
        let dir = directory();
        let specs = [StoreSpec::new("s", kind)];
        let task = Task::open(dir.path(), &specs, options(Durability::Sync, 0)).unwrap();
        let put = |time: i64| {
            let mut tx = task.transaction().unwrap();
            if let Ok(store) = task.window("s") {
                return store.put(
                    &mut tx,
                    WindowPut {
                        key: b"k",
                        value: Some(b"v"),
                        start: Timestamp(time),
                        timestamp: None,
                    },
                );
            }
            let session = WindowedKey {
                key: b"k",
                start: Timestamp(time),
                end: Timestamp(time),
            };
            task.session("s").unwrap().put(&mut tx, session, Some(b"v"))
        };
        // Also where nothing is staged: the transaction stays one without writes.
        let too_large = vec![0; 1 << 30];
        if let Ok(store) = task.window("s") {
            let put = WindowPut {
                key: b"k",
                value: Some(&too_large),
                start: Timestamp(1_000_000),
                timestamp: None,
            };
            assert_eq!(
                store
                    .put(&mut task.transaction().unwrap(), put)
                    .unwrap_err()
                    .kind(),
                ErrorKind::InvalidValue
            );
            assert!(
                task.transaction().unwrap().is_empty(),
                "{:?}",
                specs[0].kind
            );
        }
        put(10).unwrap();
        Failpoint::BeforeSpill.arm(Action::Error, 0);
        assert_eq!(put(1_000_000).unwrap_err().kind(), ErrorKind::Io);
        for _ in 0..2 {
            assert_eq!(
                task.stream_time("s", &task.transaction().unwrap()).unwrap(),
                Some(Timestamp(10)),
                "{:?}",
                specs[0].kind
            );
            task.commit(at(1)).unwrap();
        }
        put(1_000_000).unwrap();
        assert_eq!(
            task.stream_time("s", &task.transaction().unwrap()).unwrap(),
            Some(Timestamp(1_000_000))
        );
    }
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
        let error = Task::open(dir.path(), &specs(), options(Durability::Sync, 0))
            .err()
            .unwrap();
        assert_eq!(error.kind(), ErrorKind::StoreCorrupted, "{error}");
        assert!(error.to_string().contains(damaged), "{error}");
        std::fs::write(&file, &bytes).unwrap();
        assert_eq!(
            committed(&open(dir.path(), 0)),
            expected(Durability::Sync, 1)
        );
    }
}
