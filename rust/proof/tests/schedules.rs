//! How a writer publishes its state to readers, tested under shuttle, which chooses the next thread
//! at every lock. Views of both isolation levels are read beside a writer that commits and rolls
//! back, and beside a close. A failing schedule is printed, and `SCHEDULE_SEED` repeats the run.

use holdfast_core::{
    Database, DatabaseOptions, ErrorKind, KeyValueStore, OffsetChange, Result, Step, StoreKind,
    StoreSpec, Timestamp, Transaction,
};
use holdfast_proof::rounds;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const ACCOUNTS: u8 = 3;
const EACH: u8 = 10;
const RETENTION: i64 = 2;

fn open() -> Arc<Database> {
    let history = StoreKind::Versioned {
        history_retention: RETENTION,
        segment_interval: 1,
    };
    let specs = [
        StoreSpec::new("left", StoreKind::KeyValue),
        StoreSpec::new("right", StoreKind::KeyValue),
        StoreSpec::new("history", history),
    ];
    let db =
        Database::open_in_memory(&specs, DatabaseOptions::default()).expect("a database in memory");
    let mut tx = db.transaction().expect("a transaction");
    for n in 0..ACCOUNTS {
        for name in ["left", "right"] {
            db.key_value(name)
                .expect("a store")
                .put(&mut tx, &[n], Some(&[EACH]))
                .expect("a put");
        }
    }
    drop(tx);
    db.commit(OffsetChange::Keep).expect("a commit");
    db
}

fn amount(store: &KeyValueStore, tx: &mut Transaction, n: u8) -> Result<u8> {
    store.get(tx, &[n], |found| found.map_or(0, |value| value[0]))
}

/// Moves one unit of money from each account on the left to the right, and stores the time.
fn transfer(db: &Database, tx: &mut Transaction, at: i64) -> Result<()> {
    let (left, right) = (db.key_value("left")?, db.key_value("right")?);
    for n in 0..ACCOUNTS {
        let (from, to) = (amount(&left, tx, n)? - 1, amount(&right, tx, n)? + 1);
        left.put(tx, &[n], Some(&[from]))?;
        right.put(tx, &[n], Some(&[to]))?;
    }
    db.versioned("history")?
        .put(tx, b"clock", Some(&[at as u8]), Timestamp(at))
        .map(drop)
}

/// The amount of each account on the left and on the right, by scans; all accounts of a side are
/// equal.
fn totals(db: &Database, view: &mut Transaction) -> Result<(u8, u8)> {
    let mut sides = [0; 2];
    for (side, name) in sides.iter_mut().zip(["left", "right"]) {
        let mut amounts = Vec::new();
        db.key_value(name)?
            .range(view, None, None, false)?
            .for_each(&mut |_, value| {
                amounts.push(value[0]);
                Step::Next
            })?;
        assert_eq!(
            amounts, [amounts[0]; ACCOUNTS as usize],
            "a part of a transaction"
        );
        *side = amounts[0];
    }
    Ok((sides[0], sides[1]))
}

/// Reads a view twice while the other threads run.
fn read_twice(db: &Database, mut view: Transaction, returned: u64) -> Result<()> {
    let seen = totals(db, &mut view)?;
    assert_eq!(seen.0 + seen.1, 2 * EACH, "money made or lost");
    let time = db
        .versioned("history")?
        .get(&mut view, b"clock", |found| found.map(|v| v.timestamp.0))?;
    assert_eq!(
        time.unwrap_or(0),
        i64::from(EACH - seen.0),
        "stores at different commits"
    );
    assert!(
        time.unwrap_or(0) >= returned as i64,
        "a view without what had returned before it was taken"
    );
    shuttle::thread::yield_now();
    assert_eq!(totals(db, &mut view)?, seen, "a view that changed");
    let then = time.map_or(Ok(None), |time| {
        db.versioned("history")?
            .get_as_of(&mut view, b"clock", Timestamp(time), |found| {
                found.map(|v| v.timestamp.0)
            })
    })?;
    assert_eq!(then, time, "history that a view can still read was dropped");
    Ok(())
}

/// Accepts one error only: the database is closed.
fn unless_closed(result: Result<()>) {
    if let Err(error) = result {
        assert_eq!(error.kind(), ErrorKind::StoreClosed, "{error}");
    }
}

fn model(closes: bool) {
    let db = open();
    // The last call of the writer that has returned without a rollback, and the last committed
    // one: a later view includes it. The counters are not shuttle's: they are not under test.
    let returned = [Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0))];
    let mut threads = Vec::new();
    for uncommitted in [true, false] {
        let db = Arc::clone(&db);
        let returned = Arc::clone(&returned[usize::from(!uncommitted)]);
        threads.push(shuttle::thread::spawn(move || {
            for _ in 0..2 {
                let before = returned.load(Ordering::SeqCst);
                let view = if uncommitted {
                    db.read_uncommitted()
                } else {
                    db.begin()
                };
                unless_closed(view.and_then(|view| read_twice(&db, view, before)));
            }
        }));
    }
    if closes {
        let db = Arc::clone(&db);
        threads.push(shuttle::thread::spawn(move || db.close().expect("a close")));
    }
    let work = || -> Result<()> {
        let [uncommitted, committed] = &returned;
        for at in 1..=4 {
            // Calls for one record and calls for many. Readers do not see a part of such a call.
            let call = |at| {
                if at % 2 == 0 {
                    db.write_batch(|tx| transfer(&db, tx, at))
                } else {
                    db.write(|tx| transfer(&db, tx, at))
                }
            };
            call(at)?;
            if at == 2 {
                db.rollback()?;
                call(at)?;
            }
            uncommitted.store(at as u64, Ordering::SeqCst);
            db.commit(OffsetChange::Keep)?;
            committed.store(at as u64, Ordering::SeqCst);
        }
        Ok(())
    };
    unless_closed(work());
    for thread in threads {
        thread.join().expect("a thread that ends well");
    }
}

fn try_orders(scheduler: impl Scheduler + 'static, closes: bool) {
    let mut config = shuttle::Config::new();
    // RocksDB runs on the stacks of shuttle's threads.
    config.stack_size = 1 << 20;
    shuttle::Runner::new(scheduler, config).run(move || model(closes));
}

#[test]
fn no_schedule_shows_a_reader_a_partial_commit() {
    let (seed, orders) = (
        rounds("SCHEDULE_SEED", 1),
        rounds("SCHEDULES", 2_000) as usize,
    );
    for closes in [false, true] {
        try_orders(RandomScheduler::new_from_seed(seed, orders / 4), closes);
        try_orders(PctScheduler::new_from_seed(seed, 3, orders / 4), closes);
    }
}
