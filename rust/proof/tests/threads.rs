//! Readers of both isolation levels beside a writer that commits, rolls back, expires and compacts.
//! Money moves between two stores. Each view has the bank's total. A READ_UNCOMMITTED view has each
//! transfer that had returned before the view was taken, a READ_COMMITTED view each transfer that
//! had been committed.

use holdfast_core::{
    Database, Durability, KeyValueStore, OffsetChange, Step, StoreKind, StoreSpec, Timestamp,
    Transaction, VersionedStore,
};
use holdfast_proof::{directory, generator, runner};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

const ACCOUNTS: u64 = 40;
const EACH: i64 = 1_000;
const TRANSACTIONS: u64 = 400;
/// Readers of each level.
const READERS: u64 = 4;
const RETENTION: i64 = 500;

fn account(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

fn amount(bytes: &[u8]) -> i64 {
    i64::from_be_bytes(bytes.try_into().expect("eight bytes"))
}

struct Bank {
    cash: KeyValueStore,
    history: VersionedStore,
}

impl Bank {
    fn of(db: &Database) -> Self {
        Self {
            cash: db.key_value("cash").expect("a store"),
            history: db.versioned("history").expect("a store"),
        }
    }

    fn cash(&self, tx: &mut Transaction, n: u64) -> i64 {
        self.cash
            .get(tx, &account(n), |found| found.map_or(0, amount))
            .expect("a read")
    }

    fn history(&self, tx: &mut Transaction, n: u64) -> i64 {
        self.history
            .get(tx, &account(n), |found| {
                found.map_or(0, |v| amount(v.value))
            })
            .expect("a read")
    }

    /// Moves money from an account's cash to another account's history, in one transaction.
    fn transfer(&self, tx: &mut Transaction, from: u64, to: u64, sum: i64, at: i64) {
        let (cash, history) = (self.cash(tx, from) - sum, self.history(tx, to) + sum);
        self.cash
            .put(tx, &account(from), Some(&cash.to_be_bytes()))
            .expect("a put");
        self.history
            .put(
                tx,
                &account(to),
                Some(&history.to_be_bytes()),
                Timestamp(at),
            )
            .expect("a put");
    }

    /// The total, by scans or by single reads.
    fn total(&self, tx: &mut Transaction, scan: bool) -> i64 {
        let mut total = 0;
        if scan {
            let mut rows = self.cash.range(tx, None, None, false).expect("a scan");
            rows.for_each(&mut |_, value| {
                total += amount(value);
                Step::Next
            })
            .expect("a scan");
            let mut rows = self.history.scan(tx, None).expect("a scan");
            rows.for_each(&mut |_, version| {
                total += amount(version.value);
                true
            })
            .expect("a scan");
        } else {
            for n in 0..ACCOUNTS {
                total += self.cash(tx, n) + self.history(tx, n);
            }
        }
        total
    }
}

/// Ends all threads when the first of them returns or panics.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn readers_always_see_the_same_total() {
    let dir = directory().expect("a temporary directory");
    let history = StoreKind::Versioned {
        history_retention: RETENTION,
        segment_interval: 50,
    };
    let specs: [StoreSpec; 2] = [
        StoreSpec::new("cash", StoreKind::KeyValue),
        StoreSpec::new("history", history),
    ];
    let db = Database::open(
        &dir.path().join("bank"),
        &specs,
        runner::options(Durability::Changelog),
    )
    .expect("a new database");
    let bank = Bank::of(&db);
    for n in 0..ACCOUNTS {
        bank.cash
            .put(
                &mut db.transaction().expect("a transaction"),
                &account(n),
                Some(&EACH.to_be_bytes()),
            )
            .expect("a put");
    }
    db.commit(OffsetChange::Keep).expect("a commit");
    let wanted = EACH * ACCOUNTS as i64;
    let (done, views) = (AtomicBool::new(false), AtomicU64::new(0));
    // The last transfer that has returned without a rollback, and the last committed one: a later
    // view includes it, unless a rollback came between.
    let (returned, rollbacks) = ([AtomicI64::new(-1), AtomicI64::new(-1)], AtomicU64::new(0));
    std::thread::scope(|scope| {
        for reader in 0..2 * READERS {
            let (db, done, views, returned, rollbacks) =
                (&db, &done, &views, &returned, &rollbacks);
            scope.spawn(move || {
                let _ends = Ends(done);
                let (bank, mut rng) = (Bank::of(db), generator(reader, 3));
                while !done.load(Ordering::Relaxed) {
                    let uncommitted = reader < READERS;
                    let rolled_back = rollbacks.load(Ordering::SeqCst);
                    let returned = returned[usize::from(!uncommitted)].load(Ordering::SeqCst);
                    let view = if uncommitted {
                        db.read_uncommitted()
                    } else {
                        db.begin()
                    };
                    let mut view = view.expect("a view");
                    let level = if uncommitted {
                        "uncommitted"
                    } else {
                        "committed"
                    };
                    let time = bank.history.stream_time(&view).map_or(-1, |time| time.0);
                    if !uncommitted || rollbacks.load(Ordering::SeqCst) == rolled_back {
                        assert!(
                            time >= returned,
                            "{level}: a view of transfer {time} when {returned} had returned"
                        );
                    }
                    // Read the same view twice in different ways while the writer continues.
                    let scan = rng.bool();
                    assert_eq!(
                        bank.total(&mut view, scan),
                        wanted,
                        "{level}, by scans: {scan}"
                    );
                    assert_eq!(
                        bank.total(&mut view, !scan),
                        wanted,
                        "{level}, the second read, by scans: {}",
                        !scan
                    );
                    views.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        scope.spawn(|| {
            let mut rng = generator(1, 4);
            let _ends = Ends(&done);
            let [uncommitted, committed] = &returned;
            let mut at = 0;
            for _ in 0..TRANSACTIONS {
                if done.load(Ordering::Relaxed) {
                    // A reader has failed.
                    return;
                }
                for _ in 0..rng.u64(1..20) {
                    let (from, to, sum) =
                        (rng.u64(..ACCOUNTS), rng.u64(..ACCOUNTS), rng.i64(1..100));
                    at += 1;
                    let transfer = |tx: &mut Transaction| {
                        bank.transfer(tx, from, to, sum, at);
                        Ok(())
                    };
                    if rng.bool() {
                        db.write(transfer)
                    } else {
                        db.write_batch(transfer)
                    }
                    .expect("a transfer");
                    uncommitted.store(at, Ordering::SeqCst);
                }
                match rng.u8(..20) {
                    0..=4 => {
                        uncommitted.store(committed.load(Ordering::SeqCst), Ordering::SeqCst);
                        rollbacks.fetch_add(1, Ordering::SeqCst);
                        db.rollback().expect("a rollback");
                    }
                    5 => db.flush(true).expect("a flush"),
                    6 => db.compact("history").expect("a compaction"),
                    _ => {
                        db.commit(OffsetChange::Keep).expect("a commit");
                        committed.store(at, Ordering::SeqCst);
                    }
                }
            }
            // If the readers start late, the test waits until they have read some views.
            while views.load(Ordering::Relaxed) < 200 && !done.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        });
    });
}
