//! Keys in memory, each with its newest time.

use holdfast_core::{Result, Timestamp, Transaction, WindowPut, WindowStore};

use crate::operator::numbering::KeyNumbers;

/// The most memory that a key takes, in bytes, without its own bytes: its place among the keys, its
/// entry in the hash table, its times.
const KEY_BYTES: usize = 128;

/// The value of a window in a transaction with intermediate results: the epoch has added it.
pub const ADDED: &[u8] = &[0];
/// The value of a window there that was stored before the epoch and is no longer its key's newest.
pub const REPLACED: &[u8] = &[1];

/// The values with which times are put.
pub struct TimeValues {
    /// The value of a time that the epoch has added.
    pub added: &'static [u8],
    /// The value of a time that was stored before the epoch and is no longer the newest one; none
    /// deletes it.
    pub replaced: Option<&'static [u8]>,
}

/// Keys with their newest times. Keys are numbered in the order in which they are first seen.
#[derive(Default)]
pub struct NewestTimes {
    keys: KeyNumbers,
    times: Vec<NewestTime>,
}

/// A key's newest time.
#[derive(Clone, Copy, Default)]
struct NewestTime {
    /// The time that the store has.
    stored: Option<i64>,
    /// Whether an earlier part of the epoch has added the stored time.
    is_added: bool,
    now: Option<i64>,
}

impl NewestTimes {
    /// The number of a key; a new key gets the next number.
    pub fn number(&mut self, key: &[u8]) -> usize {
        self.keys.enter(key) as usize
    }

    /// Returns at most how much memory the keys take, in bytes. A list that grows may have twice
    /// the memory that it needs.
    pub fn bytes(&self) -> usize {
        2 * self.keys.total_bytes() + KEY_BYTES * self.keys.count()
    }

    /// Reads the stored times of the new keys.
    ///
    /// # Errors
    /// Those of the store.
    pub fn load(&mut self, seen: &WindowStore, tx: &mut Transaction) -> Result<()> {
        let Self { keys, times } = self;
        let loaded = times.len();
        times.resize(keys.count(), NewestTime::default());
        let keys: Vec<&[u8]> = (loaded..keys.count())
            .map(|number| keys.key(number as u32))
            .collect();
        let (from, to) = (
            vec![Timestamp::MIN; keys.len()],
            vec![Timestamp::MAX; keys.len()],
        );
        seen.fetch_ranges(tx, &keys, &from, &to, &mut |number, window, found| {
            if found.value == REPLACED {
                return;
            }
            let time = Some(window.start.0);
            times[loaded + number] = NewestTime {
                stored: time,
                is_added: found.value == ADDED,
                now: time,
            };
        })
    }

    /// Raises a key's newest time to that of a row; returns the key's previous newest time.
    pub fn raise(&mut self, number: usize, time: i64) -> Option<i64> {
        let key = &mut self.times[number];
        let before = key.now;
        key.now = before.max(Some(time));
        before
    }

    /// Puts the newest times that have changed, in place of the stored ones. Times before `oldest`
    /// are neither put nor deleted.
    ///
    /// # Errors
    /// Those of the store.
    pub fn put(
        &self,
        seen: &WindowStore,
        tx: &mut Transaction,
        oldest: i64,
        values: &TimeValues,
    ) -> Result<()> {
        let changed = || {
            (0..)
                .zip(&self.times)
                .filter(|(_, time)| time.now != time.stored)
                .map(|(number, time)| (self.keys.key(number), time))
        };
        let put = |key, start, value| WindowPut {
            key,
            value,
            start: Timestamp(start),
            timestamp: None,
        };
        let old = changed().filter_map(|(key, newest)| {
            let stored = newest.stored.filter(|time| *time >= oldest)?;
            Some(put(
                key,
                stored,
                values.replaced.filter(|_| !newest.is_added),
            ))
        });
        seen.put_batch(tx, old)?;
        let new = changed().filter_map(|(key, newest)| {
            let now = newest.now.filter(|time| *time >= oldest)?;
            Some(put(key, now, Some(values.added)))
        });
        seen.put_batch(tx, new)
    }
}
