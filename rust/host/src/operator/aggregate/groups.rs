//! The groups of an epoch. Each group is a key with a window's start. Groups are numbered in the
//! order in which they are first seen.

use crate::operator::input::RowPlace;
use crate::operator::numbering::{KeyNumbers, PairNumbers};

/// Groups by number. A group is its key's bytes and its window's start (0 without windows; with
/// sliding windows, the time of a pane).
#[derive(Default)]
pub struct Groups {
    keys: KeyNumbers,
    groups: PairNumbers,
}

impl Groups {
    /// The number of groups.
    pub fn count(&self) -> usize {
        self.groups.count()
    }

    /// A group's key.
    #[inline]
    pub fn key(&self, group: usize) -> &[u8] {
        self.keys.key(self.groups.pair(group).0)
    }

    /// The start of a group's window.
    #[inline]
    pub fn start(&self, group: usize) -> i64 {
        self.groups.pair(group).1
    }

    /// Returns whether a group is known.
    pub fn has(&self, key: &[u8], start: i64) -> bool {
        let key = self.keys.find(key);
        key.is_some_and(|key| self.groups.find(key, start).is_some())
    }

    /// Returns the number of a group; a new group gets the next number.
    #[inline]
    pub fn enter(&mut self, key: &[u8], start: i64) -> u32 {
        let key = self.enter_key(key);
        self.enter_start(key, start)
    }

    /// Returns the number of a key, for [`Self::enter_start`]. The key need not have a group.
    #[inline]
    pub fn enter_key(&mut self, key: &[u8]) -> u32 {
        self.keys.enter(key)
    }

    /// The bytes of a key that has a number.
    #[inline]
    pub fn key_bytes(&self, key: u32) -> &[u8] {
        self.keys.key(key)
    }

    /// Like [`Self::enter`], for a key that has a number.
    #[inline]
    pub fn enter_start(&mut self, key: u32, start: i64) -> u32 {
        self.groups.enter(key, start)
    }
}

/// A row and a group that it belongs to.
#[derive(Clone, Copy)]
pub struct Assigned {
    /// The group's number; before `Windows::settle`, for sessions that of a run.
    pub group: u32,
    /// Where the row is.
    pub place: RowPlace,
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
        assert!(groups.has(b"b", 0) && groups.has(b"b", -5));
        assert!(!groups.has(b"a", -5) && !groups.has(b"c", 0));
    }

    #[test]
    fn a_key_without_a_group_is_no_group() {
        let mut groups = Groups::default();
        let keys = [b"a", b"b", b"c"].map(|key| groups.enter_key(key));
        assert_eq!((groups.enter_start(keys[2], 7), groups.count()), (0, 1));
        assert!(!groups.has(b"a", 0) && !groups.has(b"b", 7) && groups.has(b"c", 7));
        assert_eq!((groups.enter(b"b", 7), groups.key(1)), (1, b"b".as_slice()));
    }
}
