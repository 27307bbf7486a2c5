//! A hash table of numbers.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// Numbers by the hashes of what they stand for.
///
/// Each entry has a part of its hash. So a look-up skips the entries of other hashes without a read
/// of what they stand for, and the table grows without such reads.
#[derive(Default)]
pub struct NumberTable {
    entries: HashTable<HashedNumber>,
}

#[derive(Clone, Copy)]
struct HashedNumber {
    hash: u32,
    number: u32,
}

impl HashedNumber {
    fn new(hash: u64, number: u32) -> Self {
        Self {
            hash: (hash ^ (hash >> 32)) as u32,
            number,
        }
    }

    /// The hash by which the table places the entry. The table uses its lowest and its uppermost
    /// bits.
    fn place(self) -> u64 {
        u64::from(self.hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

impl NumberTable {
    /// Returns the number with this hash for which `is_it` is true.
    #[inline]
    pub fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let wanted = HashedNumber::new(hash, 0);
        let found = self.entries.find(wanted.place(), |entry| {
            entry.hash == wanted.hash && is_it(entry.number)
        });
        found.map(|entry| entry.number)
    }

    /// Returns the number with this hash for which `is_it` is true. If there is none, it adds
    /// `next`.
    #[inline]
    pub fn find_or_add(&mut self, hash: u64, next: u32, is_it: impl Fn(u32) -> bool) -> u32 {
        let wanted = HashedNumber::new(hash, next);
        let entry = self.entries.entry(
            wanted.place(),
            |entry| entry.hash == wanted.hash && is_it(entry.number),
            |entry| entry.place(),
        );
        match entry {
            Entry::Occupied(entry) => entry.get().number,
            Entry::Vacant(entry) => entry.insert(wanted).get().number,
        }
    }
}
