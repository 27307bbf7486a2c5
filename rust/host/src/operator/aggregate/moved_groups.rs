//! Groups of an epoch whose states have moved to disk.
//!
//! The states are in a transaction of their own, which spills. The epoch's transaction cannot hold
//! them: some are deleted before the epoch ends, and would remain there as deletes.

use holdfast_core::store::windowed::ordered;
use holdfast_core::{Database, KeyValueStore, Result, Transaction};

use super::groups::Groups;
use super::spec::PROGRESS;
use crate::codec::byte_list::ByteList;
use crate::codec::row::EncodedRows;
use crate::memory::budget::MIN_TRANSACTION_BYTES;

/// The first byte of each key. No other key of the store begins with it.
const PREFIX: u8 = 0;
/// The first byte of the value of a group without new rows.
const STORED: u8 = 0;
/// The first byte of the value of a group with new rows.
const TOUCHED: u8 = 1;

/// The groups of an epoch, by start and then by key.
///
/// ```text
/// 0 | start, 8 bytes, sign flipped | key  →  1 if the group has new rows, else 0 | state
/// ```
pub struct MovedGroups {
    store: KeyValueStore,
    tx: Transaction,
    newest: Option<i64>,
}

/// A group that has moved.
pub struct MovedGroup<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The start of its window.
    pub start: i64,
    /// Its state so far.
    pub state: &'a [u8],
    /// Whether it has new rows.
    pub is_touched: bool,
}

impl<'a> MovedGroup<'a> {
    fn decode(key: &'a [u8], value: &'a [u8]) -> Option<Self> {
        let (start, key) = key.strip_prefix(&[PREFIX])?.split_first_chunk()?;
        let (mark, state) = value.split_first()?;
        Some(Self {
            key,
            start: i64::from_be_bytes(*start) ^ i64::MIN,
            state,
            is_touched: *mark == TOUCHED,
        })
    }
}

impl MovedGroups {
    /// Starts without groups, on the commit on which the epoch's transaction began.
    ///
    /// # Errors
    /// The database's, if it does not have the store.
    pub fn new(db: &Database, tx: &Transaction) -> Result<Self> {
        Ok(Self {
            store: db.key_value(PROGRESS)?,
            tx: tx.begin_another(),
            newest: None,
        })
    }

    /// Sets the memory above which states move to files, in bytes.
    pub fn limit_memory(&mut self, bytes: usize) {
        self.tx.limit_memory(bytes.max(MIN_TRANSACTION_BYTES));
    }

    /// Whether states are in files.
    pub fn have_spilled(&self) -> bool {
        self.tx.has_spilled()
    }

    /// The greatest start of a group with new rows.
    pub fn newest(&self) -> Option<i64> {
        self.newest
    }

    /// Returns the states of groups; none for those that have not moved.
    ///
    /// # Errors
    /// Those of the store.
    pub fn states(&mut self, groups: &Groups) -> Result<Vec<Option<Vec<u8>>>> {
        let keys: Vec<Vec<u8>> = (0..groups.count()).map(|n| row_key(groups, n)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let mut states = vec![None; keys.len()];
        self.store.get_batch(&mut self.tx, &keys, |n, value| {
            let state = value.and_then(|value| value.get(1..));
            states[n] = state.map(<[u8]>::to_vec);
        })?;
        Ok(states)
    }

    /// Puts the states of groups with new rows.
    ///
    /// # Errors
    /// Those of the store.
    pub fn put(&mut self, groups: &Groups, states: &EncodedRows) -> Result<()> {
        let starts = (0..groups.count()).map(|group| groups.start(group));
        self.newest = self.newest.max(starts.max());
        let states = (0..groups.count()).map(|group| (group, states.get(group)));
        self.put_states(groups, states, TOUCHED)
    }

    /// Puts the states of stored groups, except those that have moved already.
    ///
    /// # Errors
    /// Those of the store.
    pub fn put_stored(&mut self, groups: &Groups, states: &ByteList) -> Result<()> {
        let moved = self.states(groups)?;
        let others = (0..groups.count()).filter(|group| moved[*group].is_none());
        let states = others.map(|group| (group, states.get(group)));
        self.put_states(groups, states, STORED)
    }

    fn put_states<'a>(
        &mut self,
        groups: &Groups,
        states: impl Iterator<Item = (usize, &'a [u8])>,
        mark: u8,
    ) -> Result<()> {
        let (mut keys, mut values) = (ByteList::default(), ByteList::default());
        for (group, state) in states {
            keys.push(&row_key(groups, group));
            values.push(&[&[mark][..], state].concat());
        }
        let rows = (0..keys.len()).map(|row| (keys.get(row), Some(values.get(row))));
        self.store.put_batch(&mut self.tx, rows)
    }

    /// Calls `f` with all groups, by start and then by key.
    ///
    /// # Errors
    /// Those of the store, and those of `f`.
    pub fn for_each(
        &mut self,
        db: &Database,
        f: &mut dyn FnMut(&MovedGroup<'_>) -> Result<()>,
    ) -> Result<()> {
        db.for_each_change(PROGRESS, &mut self.tx, &mut |change| {
            let value = change.value.unwrap_or_default();
            match MovedGroup::decode(change.key, value) {
                Some(group) => f(&group),
                None => Ok(()),
            }
        })
    }
}

fn row_key(groups: &Groups, group: usize) -> Vec<u8> {
    let start = ordered(groups.start(group));
    [&[PREFIX][..], &start, groups.key(group)].concat()
}

#[cfg(test)]
mod tests {
    use holdfast_core::{DatabaseOptions, StoreKind, StoreSpec};

    use super::*;

    #[test]
    fn groups_come_by_start_and_then_by_key_with_their_newest_states() {
        let stores = [StoreSpec::new(PROGRESS, StoreKind::KeyValue)];
        let db = Database::open_in_memory(&stores, DatabaseOptions::default()).expect("opens");
        let tx = db.begin().expect("begins");
        let mut moved = MovedGroups::new(&db, &tx).expect("a store");
        let (mut groups, mut states) = (Groups::default(), ByteList::default());
        for (key, start) in [("b", -1), ("", 5), ("a", i64::MIN), ("a", 5)] {
            groups.enter(key.as_bytes(), start);
            states.push(key.as_bytes());
        }
        moved.put_stored(&groups, &states).expect("puts");
        let mut again = Groups::default();
        again.enter(b"a", 5);
        again.enter(b"c", i64::MAX);
        let mut others = ByteList::default();
        others.push(b"not this");
        others.push(b"new");
        moved.put_stored(&again, &others).expect("puts");
        let found = moved.states(&again).expect("reads");
        assert_eq!(found, [Some(b"a".to_vec()), Some(b"new".to_vec())]);
        let mut all = Vec::new();
        let mut add = |group: &MovedGroup<'_>| {
            all.push((group.start, group.key.to_vec(), group.state.to_vec()));
            assert!(!group.is_touched);
            Ok(())
        };
        moved.for_each(&db, &mut add).expect("reads");
        let expected = [
            (i64::MIN, "a", "a"),
            (-1, "b", "b"),
            (5, "", ""),
            (5, "a", "a"),
            (i64::MAX, "c", "new"),
        ];
        let expected = expected.map(|(start, key, state)| {
            let bytes = |text: &str| text.as_bytes().to_vec();
            (start, bytes(key), bytes(state))
        });
        assert_eq!(all, expected);
    }
}
