//! Stores with transactions against the same stores without (`transactional=False`) and against
//! RocksDB used by hand, for each workload.
#![allow(missing_docs, clippy::unwrap_used, reason = "a bench")]

mod measure;
mod raw;
mod turns;

use holdfast_core::{
    Database, DatabaseOptions, Durability, KeyValueStore, Step, StoreKind, StoreSpec, Transaction,
};
use measure::{FILES, KEY, Settings, TRANSACTION, VALUE, bytes, figure, offsets, timed};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn main() {
    let settings = Settings::from_env(FILES);
    for workload in workloads(settings.rows) {
        against_no_transactions(&settings, &workload);
    }
    for workload in workloads(settings.rows).into_iter().take(2) {
        beside_a_reader(&settings, &workload);
    }
    for batch in [100, 1_000, TRANSACTION] {
        published(&settings, batch);
    }
    settings.finish();
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Put,
    Delete,
    /// A read, and a put of the changed value.
    Modify,
}

/// Single calls, with a commit after each `transaction` calls.
struct Workload {
    name: &'static str,
    reach: &'static str,
    operation: Operation,
    transaction: usize,
    keys: Vec<u8>,
    /// The key of each call.
    order: Vec<u32>,
    /// The bytes of all values, which overlap.
    pool: Vec<u8>,
    value: usize,
}

fn workloads(rows: usize) -> Vec<Workload> {
    // All but the first two have fewer calls: there are many workloads, and a call without
    // transactions is slow.
    let few = rows / 5;
    let uniform = |rows: usize| Workload {
        name: "uniform keys",
        reach: ">= 2",
        operation: Operation::Put,
        transaction: TRANSACTION,
        keys: bytes(1, rows * KEY),
        order: (0..rows as u32).collect(),
        pool: bytes(2, 4 << 20),
        value: VALUE,
    };
    let random = bytes(5, rows * 8);
    let draw = |n: usize| u64::from_le_bytes(random[n * 8..][..8].try_into().unwrap()) as usize;
    let skewed = |n: usize| {
        if draw(n) % 5 > 0 {
            draw(n) / 5 % 1_000
        } else {
            draw(n) / 5 % rows
        }
    };
    let sequential = (0..few as u64)
        .flat_map(|n| [[0; 8], n.to_be_bytes()].concat())
        .collect();
    let mut all = vec![
        uniform(rows),
        Workload {
            name: "80 % on 1,000 keys",
            reach: ">= 4.5",
            order: (0..rows).map(|n| skewed(n) as u32).collect(),
            ..uniform(rows)
        },
        Workload {
            name: "sequential keys",
            keys: sequential,
            ..uniform(few)
        },
        // Only the first of these two workloads spills: 100 MB a transaction are more than the
        // default `uncommitted_max_bytes`.
        Workload {
            name: "values of 10 KiB",
            value: 10 << 10,
            ..uniform(few / 10)
        },
        Workload {
            name: "values of 10 KiB, 1,000 a transaction",
            transaction: 1_000,
            value: 10 << 10,
            ..uniform(few / 10)
        },
        Workload {
            name: "transactions of 100",
            transaction: 100,
            ..uniform(few)
        },
        Workload {
            name: "transactions of 10",
            transaction: 10,
            ..uniform(few)
        },
        Workload {
            name: "read-modify-write",
            operation: Operation::Modify,
            ..uniform(few)
        },
        Workload {
            name: "read-modify-write, 80 % on 1,000 keys",
            operation: Operation::Modify,
            order: (0..few).map(|n| (skewed(n) % few) as u32).collect(),
            ..uniform(few)
        },
        Workload {
            name: "deletes",
            operation: Operation::Delete,
            ..uniform(few)
        },
    ];
    for workload in &mut all[2..] {
        workload.reach = ">= 1.1";
    }
    all
}

impl Workload {
    fn key(&self, n: usize) -> &[u8] {
        &self.keys[self.order[n] as usize * KEY..][..KEY]
    }

    fn value(&self, n: usize) -> &[u8] {
        &self.pool[n * 8 % (self.pool.len() - self.value)..][..self.value]
    }

    /// Returns the rows that are stored before the clock starts.
    fn loaded(&self) -> Vec<(&[u8], &[u8])> {
        if self.operation == Operation::Put {
            return Vec::new();
        }
        self.keys
            .chunks(KEY)
            .enumerate()
            .map(|(n, key)| (key, self.value(n)))
            .collect()
    }

    fn changed(value: Option<&[u8]>, into: &mut Vec<u8>) {
        into.clear();
        into.extend_from_slice(value.unwrap_or(&[0; VALUE]));
        into[0] = into[0].wrapping_add(1);
    }

    fn open(&self, path: &Path, transactional: bool) -> (Arc<Database>, KeyValueStore) {
        let spec = StoreSpec {
            transactional,
            ..StoreSpec::new("s", StoreKind::KeyValue)
        };
        let options = DatabaseOptions {
            durability: Durability::Changelog,
            ..DatabaseOptions::default()
        };
        let db = Database::open(path, &[spec], options).unwrap();
        let store = db.key_value("s").unwrap();
        let rows = self.loaded();
        for (n, chunk) in rows.chunks(TRANSACTION).enumerate() {
            let mut tx = db.transaction().unwrap();
            for (key, value) in chunk {
                store.put(&mut tx, key, Some(value)).unwrap();
            }
            db.write_through(&mut tx).unwrap();
            drop(tx);
            db.commit(offsets(n as i64)).unwrap();
        }
        (db, store)
    }

    /// Makes each call as the binding does. The call locks the open transaction, and writes what it
    /// staged for a store without transactions to RocksDB before it returns.
    fn run(&self, db: &Database, store: &KeyValueStore) {
        let mut value = Vec::new();
        for n in 0..self.order.len() {
            let call = |tx: &mut Transaction| match self.operation {
                Operation::Put => store.put(tx, self.key(n), Some(self.value(n))),
                Operation::Delete => store.put(tx, self.key(n), None),
                Operation::Modify => {
                    store.get(tx, self.key(n), |found| Self::changed(found, &mut value))?;
                    store.put(tx, self.key(n), Some(&value))
                }
            };
            db.write(call).unwrap();
            if (n + 1) % self.transaction == 0 {
                db.commit(offsets(n as i64)).unwrap();
            }
        }
    }

    fn run_by_hand(&self, rocks: &rust_rocksdb::DB) {
        let options = raw::no_wal();
        let mut value = Vec::new();
        for n in 0..self.order.len() {
            match self.operation {
                Operation::Put => rocks.put_opt(self.key(n), self.value(n), &options).unwrap(),
                Operation::Delete => rocks.delete_opt(self.key(n), &options).unwrap(),
                Operation::Modify => {
                    Self::changed(
                        rocks.get_pinned(self.key(n)).unwrap().as_deref(),
                        &mut value,
                    );
                    rocks.put_opt(self.key(n), &value, &options).unwrap();
                }
            }
        }
    }

    fn in_store(&self, transactional: bool) -> f64 {
        let dir = tempfile::tempdir().unwrap();
        let (db, store) = self.open(dir.path(), transactional);
        timed(|| self.run(&db, &store))
    }
}

fn against_no_transactions(settings: &Settings, workload: &Workload) {
    let ours = format!("put + commit, {}: a transactional store", workload.name);
    figure(
        settings,
        (
            &ours,
            "the same store with transactional=False",
            workload.reach,
            "throughput",
        ),
        || workload.in_store(true),
        || workload.in_store(false),
    );
    figure(
        settings,
        (
            &ours,
            "RocksDB by hand, call by call, WAL off",
            "",
            "throughput",
        ),
        || workload.in_store(true),
        || {
            let dir = tempfile::tempdir().unwrap();
            let rocks = raw::open(dir.path(), false);
            raw::put_loop(&rocks, workload.loaded().into_iter());
            timed(|| workload.run_by_hand(&rocks))
        },
    );
}

/// The work of another thread beside the writer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    Nothing,
    /// Scans the whole store, with the changes of the open transaction, again and again.
    Scans,
    /// Only uses a processor. This shows what any busy thread costs a writer, whose flushes need a
    /// processor, too.
    Computes,
}

fn beside_a_reader(settings: &Settings, workload: &Workload) {
    let scans = AtomicU64::new(0);
    let run = |beside: Beside| {
        let dir = tempfile::tempdir().unwrap();
        let (db, store) = workload.open(dir.path(), true);
        let done = AtomicBool::new(beside == Beside::Nothing);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    if beside == Beside::Computes {
                        std::hint::spin_loop();
                        continue;
                    }
                    let mut view = db.read_uncommitted().unwrap();
                    let mut rows = store.range(&mut view, None, None, false).unwrap();
                    let next = |_: &[u8], _: &[u8]| {
                        if done.load(Ordering::Relaxed) {
                            Step::Pause
                        } else {
                            Step::Next
                        }
                    };
                    rows.for_each(&mut { next }).unwrap();
                    scans.fetch_add(1, Ordering::Relaxed);
                }
            });
            let took = timed(|| workload.run(&db, &store));
            done.store(true, Ordering::Relaxed);
            took
        })
    };
    let name = format!(
        "put + commit, {}, beside a READ_UNCOMMITTED reader that scans all the time",
        workload.name
    );
    let reader = || run(Beside::Scans);
    figure(
        settings,
        (&name, "the same without the reader", ">= 0.9", "throughput"),
        reader,
        || run(Beside::Nothing),
    );
    figure(
        settings,
        (
            &name,
            "the same beside a thread that only computes",
            "",
            "throughput",
        ),
        reader,
        || run(Beside::Computes),
    );
    if settings.wants(&name) {
        println!("{} scans", scans.into_inner());
    }
}

/// Measures how much slower a writer of batches is if it publishes views that no reader uses.
fn published(settings: &Settings, batch: usize) {
    let uniform = workloads(settings.rows).swap_remove(0);
    let run = |readers: bool| {
        let dir = tempfile::tempdir().unwrap();
        let (db, store) = uniform.open(dir.path(), true);
        if readers {
            db.expect_uncommitted_readers();
        }
        timed(|| {
            for (n, rows) in uniform.order.chunks(batch).enumerate() {
                let at = |row: usize| n * batch + row;
                let rows =
                    (0..rows.len()).map(|row| (uniform.key(at(row)), Some(uniform.value(at(row)))));
                db.write_batch(|tx| store.put_batch(tx, rows)).unwrap();
                if ((n + 1) * batch).is_multiple_of(TRANSACTION) {
                    db.commit(offsets(n as i64)).unwrap();
                }
            }
        })
    };
    let name = format!(
        "put + commit in batches of {batch}, uniform keys, with views for READ_UNCOMMITTED readers"
    );
    figure(
        settings,
        (&name, "the same without such readers", "", "throughput"),
        || run(true),
        || run(false),
    );
}
