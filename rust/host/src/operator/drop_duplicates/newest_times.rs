//! The keys of an epoch, each with its newest time.

use std::collections::HashMap;

use holdfast_core::{Result, Timestamp, Transaction, WindowPut, WindowStore};

/// The keys of an epoch, each with its newest time. Keys are numbered in the order in which they
/// are first seen.
#[derive(Default)]
pub struct NewestTimes {
    numbers: HashMap<Vec<u8>, usize>,
    keys: Vec<Vec<u8>>,
    times: Vec<NewestTime>,
    /// The greatest time of the epoch, including its heartbeat's.
    last: Option<i64>,
}

/// A key's newest time.
#[derive(Clone, Copy, Default)]
struct NewestTime {
    stored: Option<i64>,
    now: Option<i64>,
}

impl NewestTimes {
    /// Starts without keys, at the time of the epoch's heartbeat if it has one.
    pub fn new(heartbeat: Option<i64>) -> Self {
        Self {
            last: heartbeat,
            ..Self::default()
        }
    }

    /// The number of a key; a new key gets the next number.
    pub fn number(&mut self, key: &[u8]) -> usize {
        if let Some(number) = self.numbers.get(key) {
            return *number;
        }
        self.keys.push(key.to_vec());
        self.numbers.insert(key.to_vec(), self.keys.len() - 1);
        self.keys.len() - 1
    }

    /// Reads the stored times of the new keys.
    ///
    /// # Errors
    /// Those of the store.
    pub fn load(&mut self, seen: &WindowStore, tx: &mut Transaction) -> Result<()> {
        let Self { keys, times, .. } = self;
        let loaded = times.len();
        times.resize(keys.len(), NewestTime::default());
        let keys: Vec<&[u8]> = keys[loaded..].iter().map(Vec::as_slice).collect();
        let (from, to) = (
            vec![Timestamp::MIN; keys.len()],
            vec![Timestamp::MAX; keys.len()],
        );
        seen.fetch_ranges(tx, &keys, &from, &to, &mut |number, window, _| {
            let time = Some(window.start.0);
            times[loaded + number] = NewestTime {
                stored: time,
                now: time,
            };
        })
    }

    /// Raises a key's newest time to that of a row; returns the key's previous newest time.
    pub fn raise(&mut self, number: usize, time: i64) -> Option<i64> {
        self.last = self.last.max(Some(time));
        let key = &mut self.times[number];
        let before = key.now;
        key.now = before.max(Some(time));
        before
    }

    /// Stores the newest times.
    ///
    /// # Errors
    /// Those of the store.
    pub fn store(&self, seen: &WindowStore, tx: &mut Transaction) -> Result<()> {
        let Some(last) = self.last else { return Ok(()) };
        let stream_time = seen.stream_time(tx).map_or(last, |time| time.0.max(last));
        let oldest = stream_time.saturating_sub(seen.retention().saturating_sub(1));
        let changed = || {
            self.keys
                .iter()
                .zip(&self.times)
                .filter(|(_, time)| time.now != time.stored)
        };
        let put = |key, start, value| WindowPut {
            key,
            value,
            start: Timestamp(start),
            timestamp: None,
        };
        let old = changed().filter_map(|(key, newest)| {
            let stored = newest.stored.filter(|time| *time >= oldest)?;
            Some(put(key, stored, None))
        });
        seen.put_batch(tx, old)?;
        let new = changed().filter_map(|(key, newest)| {
            let now = newest.now.filter(|time| *time >= oldest)?;
            Some(put(key, now, Some(&[][..])))
        });
        seen.put_batch(tx, new)?;
        seen.advance_stream_time(tx, Timestamp(stream_time));
        Ok(())
    }
}
