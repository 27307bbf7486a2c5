//! A close while the calls of two readers always overlap.
#![allow(clippy::unwrap_used, reason = "a test")]

use holdfast_core::{
    Database, DatabaseOptions, ErrorKind, OffsetChange, Step, StoreKind, StoreSpec,
};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Calls of each reader after the close has begun, if the close does not end them.
const CALLS: u32 = 20_000;

/// Reads until the store is closed, at most [`CALLS`] times after the close has begun. Call `n`
/// does not end before the other reader has begun its call `n + ahead`. Returns the number of calls
/// that succeeded after the close had begun.
fn read_in_turns(
    db: &Database,
    begun: [&AtomicU32; 2],
    ahead: u32,
    is_closing: &AtomicBool,
) -> u32 {
    let [mine, others] = begun;
    let mut done = 0;
    let mut tx = db.begin().unwrap();
    let mut scan = db
        .key_value("kv")
        .unwrap()
        .range(&mut tx, None, None, false)
        .unwrap();
    for call in 1.. {
        let read = scan.turn(b"k", false).and_then(|()| {
            scan.for_each(&mut |_, _| {
                mine.store(call, Ordering::SeqCst);
                while others.load(Ordering::SeqCst) < call + ahead {
                    std::thread::yield_now();
                }
                Step::Pause
            })
        });
        match read {
            Ok(_) => done += u32::from(is_closing.load(Ordering::SeqCst)),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::StoreClosed, "{error}");
                break;
            }
        }
        if done == CALLS {
            break;
        }
    }
    mine.store(u32::MAX, Ordering::SeqCst);
    done
}

/// Each reader begins a call before the other's call ends, so the database is never without a call.
/// `close` must not wait for the last call of a reader.
#[test]
fn close_ends_readers_whose_calls_overlap() {
    let dir = tempfile::tempdir().unwrap();
    let specs = [StoreSpec::new("kv", StoreKind::KeyValue)];
    let db = Database::open(dir.path(), &specs, DatabaseOptions::default()).unwrap();
    let store = db.key_value("kv").unwrap();
    db.write(|tx| store.put(tx, b"k", Some(b"v"))).unwrap();
    db.commit(OffsetChange::Keep).unwrap();
    let (first, second) = (AtomicU32::new(0), AtomicU32::new(0));
    let is_closing = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let readers = [
            threads.spawn(|| read_in_turns(&db, [&first, &second], 0, &is_closing)),
            threads.spawn(|| read_in_turns(&db, [&second, &first], 1, &is_closing)),
        ];
        while second.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        is_closing.store(true, Ordering::SeqCst);
        db.close().unwrap();
        for reader in readers {
            let done = reader.join().unwrap();
            assert!(done < CALLS, "the close waited for all calls of a reader");
        }
    });
}
