//! Write calls on the database's own transaction, which are one unit, beside a commit on another
//! thread.
#![allow(clippy::unwrap_used, reason = "a test")]

use holdfast_core::{
    Database, DatabaseOptions, ErrorKind, KeyValueStore, OffsetChange, Result, StoreKind,
    StoreSpec, Transaction,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
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
fn a_write_that_failed_with_a_part_of_it_staged_can_only_be_rolled_back() {
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
fn a_write_that_staged_nothing_before_its_error_changes_nothing() {
    let (db, store) = open();
    db.write(|tx| store.put(tx, b"before", Some(b"1"))).unwrap();
    db.write(refused).unwrap_err();
    db.commit(OffsetChange::Keep).unwrap();
    assert!(is_there(&store, &mut db.begin().unwrap(), b"before"));
}

#[test]
fn a_write_that_panicked_can_only_be_rolled_back() {
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

/// A commit that is called while a write runs waits for its end, and is refused exactly if the
/// write has failed half-way.
#[test]
fn a_commit_waits_for_the_write_that_runs() {
    for fails in [false, true] {
        let (db, store) = open();
        let (begun, has_begun) = channel();
        let committed = std::thread::scope(|threads| {
            let (db, store) = (&db, &store);
            let writer = threads.spawn(move || {
                db.write(|tx| {
                    store.put(tx, b"k", Some(b"1"))?;
                    begun.send(()).unwrap();
                    // Time for the commit to come as far as it can: the test holds without it, and
                    // shows less.
                    std::thread::sleep(std::time::Duration::from_millis(50));
                    if fails { refused(tx) } else { Ok(()) }
                })
            });
            has_begun.recv().unwrap();
            let committed = db.commit(OffsetChange::Keep);
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
