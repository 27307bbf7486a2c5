//! Items that an epoch adds, each once, with its count.

use super::stored_items::push_prefix;
use crate::codec::byte_list::ByteList;
use crate::codec::first_bytes::first_bytes;
use crate::operator::aggregate::groups::Groups;
use crate::operator::numbering::KeyNumbers;

/// Items of groups, each once, with its count. Items are numbered in the order in which they are
/// first added.
#[derive(Default)]
pub struct CountedItems {
    /// The bytes of an item: its group's number, and the rest of its key after the group's prefix.
    items: KeyNumbers,
    /// By item.
    counts: Vec<u64>,
    /// The bytes of the item that is added.
    buffer: Vec<u8>,
}

/// The length of a group's number in an item's bytes.
const GROUP_BYTES: usize = size_of::<u32>();

impl CountedItems {
    /// Adds an item of a group `count` times. `rest` is its key after the group's prefix, in two
    /// parts.
    #[inline]
    pub fn add(&mut self, group: u32, rest: [&[u8]; 2], count: u64) {
        self.buffer.clear();
        self.buffer.extend_from_slice(&group.to_ne_bytes());
        rest.iter()
            .for_each(|part| self.buffer.extend_from_slice(part));
        let item = self.items.enter(&self.buffer) as usize;
        match self.counts.get_mut(item) {
            // A sum with a corrupt count saturates instead of wrapping around.
            Some(known) => *known = known.saturating_add(count),
            None => self.counts.push(count),
        }
    }

    /// The number of an item's group.
    pub fn group(&self, item: u32) -> usize {
        let bytes = self.items.key(item).first_chunk();
        bytes.map_or(0, |group| u32::from_ne_bytes(*group)) as usize
    }

    /// An item's key after the prefix of its group.
    fn rest(&self, item: u32) -> &[u8] {
        &self.items.key(item)[GROUP_BYTES..]
    }

    /// How many times an item was added.
    pub fn count(&self, item: u32) -> u64 {
        self.counts[item as usize]
    }

    /// Returns the items in the order of their keys in the store.
    pub fn in_order(&self, groups: &Groups) -> Vec<u32> {
        let ranks = self.ranks(groups);
        let mut order: Vec<(u32, u128, u32)> = (0..self.counts.len() as u32)
            .map(|item| (ranks[self.group(item)], first_bytes(self.rest(item)), item))
            .collect();
        order.sort_unstable_by(|(rank, first, a), (other_rank, other_first, b)| {
            (rank, first)
                .cmp(&(other_rank, other_first))
                .then_with(|| self.rest(*a).cmp(self.rest(*b)))
        });
        order.into_iter().map(|(.., item)| item).collect()
    }

    /// Returns the keys of these items in the store, for one column of the result. It is fastest if
    /// the items of a group are adjacent.
    pub fn keys(&self, column: u16, items: &[u32], groups: &Groups) -> ByteList {
        let (mut keys, mut key) = (ByteList::default(), Vec::new());
        for items in items.chunk_by(|a, b| self.group(*a) == self.group(*b)) {
            key.clear();
            push_prefix(column, self.group(items[0]), groups, &mut key);
            let prefix = key.len();
            for item in items {
                key.truncate(prefix);
                key.extend_from_slice(self.rest(*item));
                keys.push(&key);
            }
        }
        keys
    }

    /// The places of the groups that have items, by group, in the order of (key, start). The keys
    /// of the store have this order.
    fn ranks(&self, groups: &Groups) -> Vec<u32> {
        let mut has_items = vec![false; groups.count()];
        (0..self.counts.len() as u32).for_each(|item| has_items[self.group(item)] = true);
        let mut order: Vec<(u128, usize)> = (0..groups.count())
            .filter(|group| has_items[*group])
            .map(|group| (first_bytes(groups.key(group)), group))
            .collect();
        let key_and_start = |group: usize| (groups.key(group), groups.start(group));
        order.sort_unstable_by(|(first, a), (other_first, b)| {
            first
                .cmp(other_first)
                .then_with(|| key_and_start(*a).cmp(&key_and_start(*b)))
        });
        let mut ranks = vec![0; groups.count()];
        for (rank, (_, group)) in (0..).zip(order) {
            ranks[group] = rank;
        }
        ranks
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn items_are_counted_and_in_the_order_of_their_keys(
            added in prop::collection::vec((
                prop::collection::vec(0..2_u8, 0..20), -2..2_i64,
                prop::collection::vec(0..2_u8, 0..20), 0..2_usize, 1..4_u64,
            ), 0..200),
        ) {
            let (mut groups, mut items) = (Groups::default(), CountedItems::default());
            // A group without items.
            groups.enter(&[1; 30], 7);
            let mut expected = BTreeMap::<Vec<u8>, u64>::new();
            for (key, start, rest, cut, count) in &added {
                let group = groups.enter(key, *start);
                let (order, value) = rest.split_at((*cut).min(rest.len()));
                items.add(group, [order, value], *count);
                let mut key = Vec::new();
                push_prefix(3, group as usize, &groups, &mut key);
                key.extend_from_slice(rest);
                *expected.entry(key).or_default() += count;
            }
            let order = items.in_order(&groups);
            let keys = items.keys(3, &order, &groups);
            let found: Vec<(Vec<u8>, u64)> = order
                .iter()
                .enumerate()
                .map(|(n, item)| (keys.get(n).to_vec(), items.count(*item)))
                .collect();
            prop_assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_sum_of_corrupt_counts_saturates() {
        let mut items = CountedItems::default();
        items.add(0, [b"a", b""], u64::MAX);
        items.add(0, [b"", b"a"], 2);
        assert_eq!(items.count(0), u64::MAX);
    }
}
