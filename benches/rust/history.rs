//! The versions that the benches of the versioned store write.

use crate::kafka::Kafka;
use crate::measure::{Data, HOUR, TRANSACTION, bytes, commit};
use holdfast_core::{Database, Op, StoreKind, Timestamp};

pub const VERSIONS: usize = 10;
pub const SEGMENT: i64 = HOUR / 12;

pub fn kind() -> StoreKind {
    StoreKind::Versioned {
        history_retention: HOUR,
        segment_interval: SEGMENT,
    }
}

/// The versions of all keys, in the order in which they are put.
pub struct History {
    pub data: Data,
    pub rows: usize,
    pub keys: usize,
    random: Vec<u8>,
}

impl History {
    pub fn new(rows: usize) -> Self {
        Self {
            data: Data::new(rows),
            rows,
            keys: rows / VERSIONS,
            random: bytes(5, rows * 8),
        }
    }

    pub fn time(&self, n: usize) -> i64 {
        n as i64 * (HOUR / 6 * 5 / self.rows as i64)
    }

    pub fn random(&self, n: usize) -> usize {
        u64::from_le_bytes(self.random[n % self.rows * 8..][..8].try_into().unwrap()) as usize
    }

    pub fn key(&self, n: usize) -> &[u8] {
        self.data.key(n % self.keys)
    }

    /// Returns the n-th put. With `late` every fifth is at a time within the half hour before.
    pub fn put(&self, n: usize, late: bool) -> (&[u8], &[u8], i64) {
        let now = self.time(n);
        let time = if late && n % 5 == 4 {
            (now - 1 - self.random(n) as i64 % (HOUR / 2)).max(0)
        } else {
            now
        };
        (self.key(n), self.data.value(n), time)
    }

    /// Returns a key, and a time in the middle of one of its first nine versions.
    pub fn as_of(&self, n: usize) -> (&[u8], i64) {
        let key = self.random(n) % self.keys;
        let version = self.random(n) / self.keys % (VERSIONS - 1);
        (
            self.data.key(key),
            self.time(version * self.keys + key) + self.time(self.keys / 2),
        )
    }

    pub fn load(&self, db: &Database, late: bool) {
        let store = db.versioned("s").unwrap();
        for first in (0..self.rows).step_by(TRANSACTION) {
            let mut tx = db.begin().unwrap();
            for n in first..(first + TRANSACTION).min(self.rows) {
                let (key, value, time) = self.put(n, late);
                store
                    .put(&mut tx, key, Some(value), Timestamp(time))
                    .unwrap();
            }
            commit(db, tx, first);
        }
    }

    /// Loads in batches, as the as-of join does.
    pub fn load_batches(&self, db: &Database, late: bool) {
        let store = db.versioned("s").unwrap();
        for first in (0..self.rows).step_by(TRANSACTION) {
            let ops: Vec<Op<'_>> = (first..(first + TRANSACTION).min(self.rows))
                .map(|n| {
                    let (key, value, time) = self.put(n, late);
                    Op::Put {
                        key,
                        value: Some(value),
                        timestamp: Timestamp(time),
                    }
                })
                .collect();
            let mut tx = db.begin().unwrap();
            store
                .apply_batch(&mut tx, &ops, false, &mut |_, _| {})
                .unwrap();
            commit(db, tx, first);
        }
    }

    pub fn load_kafka(&self, kafka: &mut Kafka, late: bool) {
        for n in 0..self.rows {
            let (key, value, time) = self.put(n, late);
            kafka.put(key, value, time);
        }
    }
}
