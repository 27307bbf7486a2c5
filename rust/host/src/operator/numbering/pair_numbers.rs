//! Pairs of a key's number and a time, by number.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;

use super::number_table::NumberTable;

/// Pairs of a key's number and a time, by number.
#[derive(Default)]
pub struct PairNumbers {
    pairs: Vec<(u32, i64)>,
    /// By key: the time and the number of its newest pair, the one that was added last. Most rows
    /// of a key are in its newest window, and most keys have one pair.
    newest: Vec<(i64, Option<u32>)>,
    /// All pairs except the newest one of each key.
    others: NumberTable,
    hasher: RandomState,
}

impl PairNumbers {
    /// The number of pairs.
    pub fn count(&self) -> usize {
        self.pairs.len()
    }

    /// A pair: the key's number and the time.
    #[inline]
    pub fn pair(&self, number: usize) -> (u32, i64) {
        self.pairs[number]
    }

    /// Returns the number of a pair; none if the pair has none.
    pub fn find(&self, key: u32, time: i64) -> Option<u32> {
        match self.newest.get(key as usize) {
            Some((newest, Some(number))) if *newest == time => Some(*number),
            Some((_, Some(_))) => self.find_other(key, time),
            _ => None,
        }
    }

    fn find_other(&self, key: u32, time: i64) -> Option<u32> {
        let hash = self.hasher.hash_one((key, time));
        self.others
            .find(hash, |number| self.pairs[number as usize] == (key, time))
    }

    /// Returns the number of a pair; a new pair gets the next number.
    #[inline]
    pub fn enter(&mut self, key: u32, time: i64) -> u32 {
        if let Some((newest, Some(number))) = self.newest.get(key as usize)
            && *newest == time
        {
            return *number;
        }
        self.enter_other(key, time)
    }

    /// Like [`Self::enter`], for a pair that is not the newest one of its key.
    fn enter_other(&mut self, key: u32, time: i64) -> u32 {
        let next = self.pairs.len() as u32;
        match self.newest.get(key as usize) {
            Some((before, Some(number))) => {
                let (before, number) = (*before, *number);
                if let Some(found) = self.find_other(key, time) {
                    return found;
                }
                let hash = self.hasher.hash_one((key, before));
                self.others.find_or_add(hash, number, |_| false);
            }
            Some(_) => {}
            None => self.newest.resize(key as usize + 1, (0, None)),
        }
        self.newest[key as usize] = (time, Some(next));
        self.pairs.push((key, time));
        next
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pairs_are_numbered_in_the_order_in_which_they_are_first_seen(
            pairs in prop::collection::vec((0..5_u32, -4..4_i64), 0..300),
        ) {
            let (mut numbers, mut model) = (PairNumbers::default(), Vec::new());
            for (key, time) in pairs {
                let known = model.iter().position(|known| *known == (key, time));
                prop_assert_eq!(numbers.find(key, time), known.map(|number| number as u32));
                let number = known.unwrap_or_else(|| {
                    model.push((key, time));
                    model.len() - 1
                });
                prop_assert_eq!(numbers.enter(key, time), number as u32);
            }
            let all: Vec<_> = (0..numbers.count()).map(|number| numbers.pair(number)).collect();
            prop_assert_eq!(all, model);
        }
    }
}
