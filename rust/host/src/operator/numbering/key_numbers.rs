//! Keys by number.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;

use super::number_table::NumberTable;
use crate::codec::byte_list::ByteList;
use crate::codec::first_bytes::first_bytes;

/// Keys by number.
#[derive(Default)]
pub struct KeyNumbers {
    keys: ByteList,
    table: NumberTable,
    hasher: RandomState,
}

impl KeyNumbers {
    /// The number of keys.
    pub fn count(&self) -> usize {
        self.keys.len()
    }

    /// The bytes of all keys.
    pub fn total_bytes(&self) -> usize {
        self.keys.total_bytes()
    }

    /// A key's bytes.
    #[inline]
    pub fn key(&self, number: u32) -> &[u8] {
        self.keys.get(number as usize)
    }

    /// Returns all numbers in the order of the keys' bytes.
    pub fn sorted(&self) -> Vec<u32> {
        let numbers = 0..self.count() as u32;
        if numbers
            .clone()
            .skip(1)
            .all(|n| self.key(n - 1) < self.key(n))
        {
            return numbers.collect();
        }
        // Most keys are told apart by numbers, without a read of them.
        let mut order: Vec<(u128, u32)> = numbers.map(|n| (first_bytes(self.key(n)), n)).collect();
        order.sort_unstable_by(|(first, a), (other_first, b)| {
            let by_key = || self.key(*a).cmp(self.key(*b));
            first.cmp(other_first).then_with(by_key)
        });
        order.into_iter().map(|(_, number)| number).collect()
    }

    /// Returns the number of a key; none if the key has none.
    pub fn find(&self, wanted: &[u8]) -> Option<u32> {
        let hash = self.hasher.hash_one(wanted);
        self.table.find(hash, |number| self.key(number) == wanted)
    }

    /// Returns the number of a key; a new key gets the next number.
    #[inline]
    pub fn enter(&mut self, wanted: &[u8]) -> u32 {
        let Self {
            keys,
            table,
            hasher,
        } = self;
        let next = keys.len() as u32;
        let number = table.find_or_add(hasher.hash_one(wanted), next, |number| {
            keys.get(number as usize) == wanted
        });
        if number == next {
            keys.push(wanted);
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn keys_are_numbered_in_the_order_in_which_they_are_first_seen(
            keys in prop::collection::vec(prop::collection::vec(0..3_u8, 0..5), 0..400),
        ) {
            let (mut numbers, mut model) = (KeyNumbers::default(), Vec::<&[u8]>::new());
            for key in &keys {
                let known = model.iter().position(|known| known == key);
                prop_assert_eq!(numbers.find(key), known.map(|number| number as u32));
                let number = known.unwrap_or_else(|| {
                    model.push(key);
                    model.len() - 1
                });
                prop_assert_eq!(numbers.enter(key), number as u32);
            }
            prop_assert_eq!(numbers.count(), model.len());
            for (number, key) in model.iter().enumerate() {
                prop_assert_eq!(numbers.key(number as u32), *key);
            }
            model.sort_unstable();
            let sorted: Vec<_> = numbers.sorted().into_iter().map(|n| numbers.key(n)).collect();
            prop_assert_eq!(sorted, model);
        }
    }
}
