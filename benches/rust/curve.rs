//! The costs of the versioned store that grow with the history: at 1 and 10 million versions, and
//! at 100 million with `HOLDFAST_BENCH_FULL`. `HOLDFAST_BENCH_SIZES=1000000,10000000` sets other
//! sizes, multiples of 100,000. Publishes each against the first one.
//!
//! There are ten versions per key as in `versioned.rs`, but they are made while they are put: 100
//! million do not fit into memory.
#![allow(missing_docs, clippy::unwrap_used, reason = "a bench")]

mod measure;
mod turns;

use criterion::Criterion;
use holdfast_core::{Applied, Database, Op, StoreKind, Timestamp};
use measure::{FILES, KEY, TRANSACTION, VALUE, bytes, commit, open, timed};
use std::sync::Arc;
use std::time::Instant;
use turns::TURNS;

const VERSIONS: usize = 10;

fn main() {
    let sizes = turns::sizes(if turns::is_quick() {
        &[100_000, 1_000_000]
    } else if turns::is_full() {
        &[1_000_000, 10_000_000, 100_000_000]
    } else {
        &[1_000_000, 10_000_000]
    });
    let tables: Vec<Table> = sizes.into_iter().map(Table::load).collect();
    let mut criterion = turns::criterion();
    // The sizes are loaded one after the other: a turn is the same part of all loads.
    compare(
        &mut criterion,
        ("versioned put", ""),
        &tables,
        |table, turn| table.puts[turn],
    );
    compare(
        &mut criterion,
        ("get as of a time in history, batches of 10,000", "<= 2"),
        &tables,
        Table::get_as_of,
    );
    compare(
        &mut criterion,
        ("all versions of a key", ""),
        &tables,
        Table::versions,
    );
    compare(
        &mut criterion,
        ("scan as of now, a key", ""),
        &tables,
        |table, _| table.scan(),
    );
    criterion.final_summary();
}

/// Measures all tables in turns, and publishes each against the first one.
fn compare(
    criterion: &mut Criterion,
    (name, reach): (&str, &str),
    tables: &[Table],
    seconds: impl Fn(&Table, usize) -> f64,
) {
    let labels: Vec<String> = tables
        .iter()
        .map(|table| format!("{} versions", table.rows))
        .collect();
    let sides: Vec<&str> = labels.iter().map(String::as_str).collect();
    let turns = turns::take(criterion, name, &sides, |turn| {
        tables.iter().map(|table| seconds(table, turn)).collect()
    });
    for (side, label) in labels.iter().enumerate().skip(1) {
        let note = format!(
            "{:.2} µs against {:.2}",
            turns::median(&turns::side(&turns, side)) * 1e6,
            turns::median(&turns::side(&turns, 0)) * 1e6
        );
        let measured = format!("{name}, {label}");
        let against = format!("the same of {}", labels[0]);
        turns::publish(
            (&measured, &against, reach, "time"),
            &turns::ratios(&turns, side, 0),
            &note,
            FILES,
        );
    }
}

/// A loaded store.
struct Table {
    rows: usize,
    db: Arc<Database>,
    /// Seconds per put, for each turn: the parts of the load.
    puts: Vec<f64>,
    values: Vec<u8>,
    _dir: tempfile::TempDir,
}

fn scrambled(n: usize) -> u64 {
    let z = (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 27)
}

impl Table {
    fn load(rows: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let kind = StoreKind::Versioned {
            history_retention: i64::MAX / 4,
            segment_interval: i64::MAX / 96,
        };
        let db = open(dir.path(), kind);
        // Each value is a slice of these 16 MiB of random bytes.
        let mut table = Self {
            rows,
            db,
            puts: Vec::new(),
            values: bytes(3, 16 << 20),
            _dir: dir,
        };
        let store = table.db.versioned("s").unwrap();
        let begin = Instant::now();
        let mut part = Instant::now();
        for first in (0..rows).step_by(TRANSACTION) {
            let mut tx = table.db.begin().unwrap();
            for n in first..(first + TRANSACTION).min(rows) {
                store
                    .put(
                        &mut tx,
                        &table.key(n),
                        Some(table.value(n)),
                        Timestamp(n as i64),
                    )
                    .unwrap();
            }
            commit(&table.db, tx, first);
            if (first + TRANSACTION).is_multiple_of(rows / TURNS) {
                let took = part.elapsed().as_secs_f64();
                table.puts.push(took / (rows / TURNS) as f64);
                part = Instant::now();
            }
            if (first + TRANSACTION).is_multiple_of(10_000_000) {
                eprintln!(
                    "curve: {} of {rows} versions after {:.0?}",
                    first + TRANSACTION,
                    begin.elapsed()
                );
            }
        }
        table.db.flush(true).unwrap();
        table.db.compact("s").unwrap();
        eprintln!(
            "curve: {rows} versions compacted after {:.0?}",
            begin.elapsed()
        );
        table
    }

    fn keys(&self) -> usize {
        self.rows / VERSIONS
    }

    fn key(&self, n: usize) -> [u8; KEY] {
        let n = n % self.keys();
        std::array::from_fn(|i| {
            if i < 8 {
                scrambled(n).to_be_bytes()[i]
            } else {
                (n as u64).to_be_bytes()[i - 8]
            }
        })
    }

    fn value(&self, n: usize) -> &[u8] {
        &self.values[scrambled(n) as usize % (self.values.len() - VALUE)..][..VALUE]
    }

    /// Seconds per read.
    fn get_as_of(&self, round: usize) -> f64 {
        let store = self.db.versioned("s").unwrap();
        let mut tx = self.db.begin().unwrap();
        let lookups = 20 * TRANSACTION;
        let mut found = 0;
        let took = timed(|| {
            for batch in 0..lookups / TRANSACTION {
                let keys: Vec<_> = (0..TRANSACTION)
                    .map(|n| {
                        let random =
                            scrambled((round * lookups + batch * TRANSACTION + n) * 7 + 1) as usize;
                        let (key, version) =
                            (random % self.keys(), random / self.keys() % (VERSIONS - 1));
                        (
                            self.key(key),
                            (version * self.keys() + key + self.keys() / 2) as i64,
                        )
                    })
                    .collect();
                let ops: Vec<_> = keys
                    .iter()
                    .map(|(key, at)| Op::Get {
                        key,
                        as_of: Timestamp(*at),
                    })
                    .collect();
                let count = &mut |_, applied: Applied<'_>| {
                    if let Applied::Get(Some(version)) = applied {
                        found += version.value.len();
                    }
                };
                store.apply_batch(&mut tx, &ops, false, count).unwrap();
            }
        });
        assert_eq!(found, lookups * VALUE);
        took / lookups as f64
    }

    /// Seconds per key.
    fn versions(&self, round: usize) -> f64 {
        let store = self.db.versioned("s").unwrap();
        let mut tx = self.db.begin().unwrap();
        let lookups = TRANSACTION;
        let mut found = 0;
        let took = timed(|| {
            for n in 0..lookups {
                let key = self.key(scrambled((round * lookups + n) * 5 + 2) as usize);
                let mut versions = store
                    .versions(&mut tx, &key, Timestamp::MIN, Timestamp::MAX, false)
                    .unwrap();
                versions
                    .for_each(&mut |_, version| {
                        found += version.value.len();
                        true
                    })
                    .unwrap();
            }
        });
        assert_eq!(found, lookups * VERSIONS * VALUE);
        took / lookups as f64
    }

    /// Seconds per key of a whole scan.
    fn scan(&self) -> f64 {
        let store = self.db.versioned("s").unwrap();
        let mut tx = self.db.begin().unwrap();
        let mut found = 0;
        let took = timed(|| {
            let mut rows = store.scan(&mut tx, None).unwrap();
            rows.for_each(&mut |_, version| {
                found += version.value.len();
                true
            })
            .unwrap();
        });
        assert_eq!(found, self.keys() * VALUE);
        took / self.keys() as f64
    }
}
