//! Write calls on the open transaction, each of which is one unit, and a commit on another thread.
#![allow(clippy::unwrap_used, reason = "a test")]

use holdfast_core::{
    Database, DatabaseOptions, ErrorKind, KeyValueStore, OffsetChange, Result, StoreKind,
    StoreSpec, Transaction,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

fn open() -> (Arc<Database>, KeyValueStore) {
    let db = Database::open_in_memory(
        &[StoreSpec::new("kv", StoreKind::KeyValue)],
        DatabaseOptions::default(),
    )
    .unwrap();
    let store = db.key_value("kv").unwrap();
    (db, store)
}

fn is_there(store: &KeyValueStore, tx: &mut Transaction, key: &[u8]) -> bool {
    store.get(tx, key, |found| found.is_some()).unwrap()
}

fn refused(_: &mut Transaction) -> Result<()> {
    Err(holdfast_core::Error::new(
        ErrorKind::InvalidValue,
        "refused",
    ))
}

#[test]
fn partly_failed_write_requires_rollback() {
    let (db, store) = open();
    db.write(|tx| store.put(tx, b"before", Some(b"1"))).unwrap();
    db.write(|tx| {
        store
            .put(tx, b"half", Some(b"1"))
            .and_then(|()| refused(tx))
    })
    .unwrap_err();
    for error in [
        db.commit(OffsetChange::Keep).unwrap_err(),
        db.write(|tx| store.put(tx, b"after", Some(b"1")))
            .unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::InvalidState);
        assert!(error.to_string().contains("half-way (refused)"), "{error}");
    }
    db.rollback().unwrap();
    db.write(|tx| store.put(tx, b"after", Some(b"1"))).unwrap();
    db.commit(OffsetChange::Keep).unwrap();
    let mut view = db.begin().unwrap();
    assert_eq!(
        [b"before".as_slice(), b"half", b"after"].map(|key| is_there(&store, &mut view, key)),
        [false, false, true]
    );
}

#[test]
fn failed_write_that_staged_nothing_changes_nothing() {
    let (db, store) = open();
    db.write(|tx| store.put(tx, b"before", Some(b"1"))).unwrap();
    db.write(refused).unwrap_err();
    db.commit(OffsetChange::Keep).unwrap();
    assert!(is_there(&store, &mut db.begin().unwrap(), b"before"));
}

#[test]
fn panicked_write_requires_rollback() {
    let (db, _) = open();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        db.write(|_| -> Result<()> { std::panic::resume_unwind(Box::new(())) })
    }));
    assert!(panicked.is_err());
    assert_eq!(
        db.commit(OffsetChange::Keep).unwrap_err().kind(),
        ErrorKind::InvalidState
    );
    db.rollback().unwrap();
    db.commit(OffsetChange::Keep).unwrap();
}

/// Whether a thread waits in the kernel, as for a lock.
fn is_blocked(thread: &Path) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(thread).join("stat")).unwrap();
    stat.rsplit(')')
        .next()
        .unwrap()
        .trim_start()
        .starts_with('S')
}

/// A commit that is called during a write waits for the end of the write. It is refused if, and
/// only if, the write failed after it had staged something.
#[test]
fn commit_waits_for_a_running_write() {
    for fails in [false, true] {
        let (db, store) = open();
        let (begun, has_begun) = channel();
        let (is_calling, has_committed) = (AtomicBool::new(false), AtomicBool::new(false));
        // Linux's name of this thread: a process and a thread of it.
        let committer = std::fs::read_link("/proc/thread-self").unwrap();
        let committed = std::thread::scope(|threads| {
            let (db, store) = (&db, &store);
            let (is_calling, has_committed) = (&is_calling, &has_committed);
            let writer = threads.spawn(move || {
                db.write(|tx| {
                    store.put(tx, b"k", Some(b"1"))?;
                    begun.send(()).unwrap();
                    // The write ends when the commit waits. A commit that does not wait returns,
                    // and its thread then waits in `join` for this thread.
                    while !(is_calling.load(Ordering::SeqCst) && is_blocked(&committer)) {
                        std::thread::yield_now();
                    }
                    assert!(
                        !has_committed.load(Ordering::SeqCst),
                        "the commit did not wait"
                    );
                    if fails { refused(tx) } else { Ok(()) }
                })
            });
            has_begun.recv().unwrap();
            is_calling.store(true, Ordering::SeqCst);
            let committed = db.commit(OffsetChange::Keep);
            has_committed.store(true, Ordering::SeqCst);
            assert_eq!(writer.join().unwrap().is_err(), fails);
            committed
        });
        assert_eq!(
            committed.map_err(|error| error.kind()),
            if fails {
                Err(ErrorKind::InvalidState)
            } else {
                Ok(())
            }
        );
        assert_eq!(is_there(&store, &mut db.begin().unwrap(), b"k"), !fails);
    }
}
