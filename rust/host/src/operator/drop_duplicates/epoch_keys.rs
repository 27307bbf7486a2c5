//! The newest times of an epoch's keys, on disk if they exceed memory.
//!
//! If the keys of the parts so far exceed the memory, they move to a transaction of their own, and
//! later parts read them there. The epoch's transaction cannot hold them: a time that a later row
//! replaces would remain there as a delete, so the changes of the epoch would depend on memory.

use holdfast_core::{Database, Result, Timestamp, Transaction, WindowPut, WindowStore};

use super::newest_times::{ADDED, NewestTimes, REPLACED, TimeValues};
use crate::memory::budget::MIN_TRANSACTION_BYTES;

/// The keys of an epoch, each with its newest time.
#[derive(Default)]
pub struct EpochKeys {
    /// The keys in memory.
    newest: NewestTimes,
    /// The times of the keys that have moved to disk. A key may be in both, with its stored time as
    /// it is here.
    moved: Option<Transaction>,
    /// The greatest time of the rows.
    last: Option<i64>,
}

impl EpochKeys {
    /// The number of a key until the next [`Self::make_room`].
    pub fn number(&mut self, key: &[u8]) -> usize {
        self.newest.number(key)
    }

    /// Reads the times of the new keys. `tx` is the epoch's transaction.
    ///
    /// # Errors
    /// Those of the store.
    pub fn load(&mut self, seen: &WindowStore, tx: &mut Transaction) -> Result<()> {
        self.newest.load(seen, self.moved.as_mut().unwrap_or(tx))
    }

    /// Raises a key's newest time to that of a row; returns the key's previous newest time.
    pub fn raise(&mut self, number: usize, time: i64) -> Option<i64> {
        self.last = self.last.max(Some(time));
        self.newest.raise(number, time)
    }

    /// Moves the keys to disk if they take more than half of `memory`, in bytes. The other half is
    /// for the transaction of the keys on disk. Returns whether they have moved.
    ///
    /// # Errors
    /// Those of the store.
    pub fn make_room(
        &mut self,
        seen: &WindowStore,
        tx: &Transaction,
        memory: usize,
    ) -> Result<bool> {
        let half = memory / 2;
        if self.newest.bytes() <= half {
            return Ok(false);
        }
        let moved = self.moved.get_or_insert_with(|| tx.begin_another());
        moved.limit_memory(half.max(MIN_TRANSACTION_BYTES));
        self.move_keys(seen)?;
        Ok(true)
    }

    /// Moves the keys to disk, if others are there.
    fn move_keys(&mut self, seen: &WindowStore) -> Result<()> {
        let (Some(moved), Some(last)) = (&mut self.moved, self.last) else {
            return Ok(());
        };
        // Rows come in order of time, so no later row compares itself with an older time.
        let oldest = first_retained(seen, stream_time(seen, moved, last));
        let values = TimeValues {
            added: ADDED,
            replaced: Some(REPLACED),
        };
        std::mem::take(&mut self.newest).put(seen, moved, oldest, &values)
    }

    /// Stores the newest times in the epoch's transaction. The stream time is then at least
    /// `heartbeat`.
    ///
    /// # Errors
    /// Those of the store.
    pub fn store(
        mut self,
        db: &Database,
        seen: &WindowStore,
        tx: &mut Transaction,
        heartbeat: Option<i64>,
    ) -> Result<()> {
        let Some(last) = self.last.max(heartbeat) else {
            return Ok(());
        };
        let stream_time = stream_time(seen, tx, last);
        let oldest = first_retained(seen, stream_time);
        self.move_keys(seen)?;
        match &mut self.moved {
            None => {
                let values = TimeValues {
                    added: &[],
                    replaced: None,
                };
                self.newest.put(seen, tx, oldest, &values)?;
            }
            Some(moved) => db.for_each_change(seen.name(), moved, &mut |change| {
                let value = match change.value {
                    Some(ADDED) => Some(&[][..]),
                    Some(REPLACED) => None,
                    // A time that the epoch has added and replaced.
                    _ => return Ok(()),
                };
                if change.timestamp.0 < oldest {
                    return Ok(());
                }
                let put = WindowPut {
                    key: change.key,
                    value,
                    start: change.timestamp,
                    timestamp: None,
                };
                seen.put(tx, put)
            })?,
        }
        seen.advance_stream_time(tx, Timestamp(stream_time));
        Ok(())
    }
}

/// The stream time after rows up to `last`.
fn stream_time(seen: &WindowStore, tx: &Transaction, last: i64) -> i64 {
    seen.stream_time(tx).map_or(last, |time| time.0.max(last))
}

/// The earliest time that the store retains at a stream time.
fn first_retained(seen: &WindowStore, stream_time: i64) -> i64 {
    stream_time.saturating_sub(seen.retention().saturating_sub(1))
}
