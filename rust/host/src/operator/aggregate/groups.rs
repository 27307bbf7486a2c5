//! The groups of an epoch. Each group is a key with a window's start. Groups are numbered in the
//! order in which they are first seen.

use std::hash::BuildHasher;
use std::ops::Range;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::operator::input::RowPlace;

/// Groups by number. A group is its key's bytes and its window's start (0 without windows; with
/// sliding windows, the time of a pane).
#[derive(Default)]
pub struct Groups {
    bytes: Vec<u8>,
    groups: Vec<(Range<usize>, i64)>,
    table: HashTable<u32>,
    hasher: RandomState,
}

impl Groups {
    /// The number of groups.
    pub fn count(&self) -> usize {
        self.groups.len()
    }

    /// A group's key.
    #[inline]
    pub fn key(&self, group: usize) -> &[u8] {
        &self.bytes[self.groups[group].0.clone()]
    }

    /// The start of a group's window.
    #[inline]
    pub fn start(&self, group: usize) -> i64 {
        self.groups[group].1
    }

    /// Returns whether a group is known.
    pub fn has(&self, key: &[u8], start: i64) -> bool {
        let is_it = |n: &u32| {
            let group = *n as usize;
            (self.key(group), self.start(group)) == (key, start)
        };
        let hash = self.hasher.hash_one((key, start));
        self.table.find(hash, is_it).is_some()
    }

    /// Returns the number of a group; a new group gets the next number.
    #[inline]
    pub fn enter(&mut self, key: &[u8], start: i64) -> u32 {
        let Self {
            bytes,
            groups,
            table,
            hasher,
        } = self;
        let of = |n: &u32| {
            let (range, start) = &groups[*n as usize];
            (&bytes[range.clone()], *start)
        };
        match table.entry(
            hasher.hash_one((key, start)),
            |n| of(n) == (key, start),
            |n| hasher.hash_one(of(n)),
        ) {
            Entry::Occupied(slot) => *slot.get(),
            Entry::Vacant(slot) => {
                let number = groups.len() as u32;
                slot.insert(number);
                let from = bytes.len();
                bytes.extend_from_slice(key);
                groups.push((from..bytes.len(), start));
                number
            }
        }
    }
}

/// A row and a group that it belongs to.
#[derive(Clone, Copy)]
pub struct Assigned {
    /// The group's number.
    pub group: u32,
    /// Where the row is.
    pub place: RowPlace,
    /// The row's time; the least time if the row has none.
    pub time: i64,
}

/// Stored groups that are merged into one.
#[derive(Debug, PartialEq, Eq)]
pub struct GroupMerge {
    /// The group into which they are merged.
    pub into: usize,
    /// The groups, in the order of time. `into` may be the first of them; the others no longer
    /// exist.
    pub parts: Vec<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_a_key_and_a_start() {
        let mut groups = Groups::default();
        let numbers: Vec<u32> = [
            (b"b".as_slice(), 0),
            (b"a", 0),
            (b"b", 0),
            (b"b", -5),
            (b"", 0),
        ]
        .map(|(key, start)| groups.enter(key, start))
        .to_vec();
        assert_eq!(numbers, [0, 1, 0, 2, 3]);
        assert_eq!((groups.key(2), groups.start(2)), (b"b".as_slice(), -5));
    }
}
