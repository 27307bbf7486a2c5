//! The hash index of a layer.

use super::record_log::RecordLog;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::BuildHasher;
use std::sync::{LazyLock, OnceLock};

/// Users choose the keys, so the seed is random per process: they cannot choose keys that collide.
/// All layers share it, so a key that is looked up in several layers is hashed once.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::default);

/// The hash of a key, as an index uses it.
#[inline]
pub(in crate::transaction) fn hash(part: &[u8]) -> u64 {
    HASHER.hash_one(part)
}

/// Finds a key's last record; in a versioned table, the record of a key's newest version.
pub(super) struct KeyIndex {
    slots: HashTable<u32>,
    /// How many records are indexed.
    indexed: usize,
    /// The index of a frozen layer that had none; made by the first lookup.
    late: Option<OnceLock<HashTable<u32>>>,
    /// Bytes at a key's end that are not indexed.
    suffix: usize,
}

impl KeyIndex {
    /// Bytes of memory for a record: 5 for each slot, and up to nine in sixteen slots are empty.
    pub(super) const BYTES: usize = 12;

    pub(super) fn new(suffix: usize) -> Self {
        Self {
            slots: HashTable::new(),
            indexed: 0,
            late: None,
            suffix,
        }
    }

    /// Bytes at a key's end that are not indexed.
    pub(super) fn suffix(&self) -> usize {
        self.suffix
    }

    /// Indexes the records that were staged since the last call.
    pub(super) fn catch_up(&mut self, log: &RecordLog) {
        if self.indexed < log.len() {
            add_records(&mut self.slots, log, self.indexed, self.suffix);
            self.indexed = log.len();
        }
    }

    /// Completes the index. If nothing was indexed yet, the first lookup does this.
    pub(super) fn freeze(&mut self, log: &RecordLog) {
        if self.indexed > 0 {
            self.catch_up(log);
        } else {
            self.late = Some(OnceLock::new());
        }
    }

    /// The record of a key, which is given without its suffix. The index must have caught up or be
    /// frozen.
    #[inline]
    pub(super) fn find(&self, log: &RecordLog, hash: u64, part: &[u8]) -> Option<u32> {
        let slots = match &self.late {
            None => &self.slots,
            Some(late) => late.get_or_init(|| {
                let mut slots = HashTable::new();
                add_records(&mut slots, log, 0, self.suffix);
                slots
            }),
        };
        debug_assert!(self.late.is_some() || self.indexed == log.len());
        let same = |n: &u32| indexed_part(log, *n, self.suffix) == part;
        slots.find(hash, same).copied()
    }
}

#[inline]
fn indexed_part(log: &RecordLog, n: u32, suffix: usize) -> &[u8] {
    let key = log.key(n);
    &key[..key.len() - suffix]
}

fn add_records(slots: &mut HashTable<u32>, log: &RecordLog, from: usize, suffix: usize) {
    let part_of = |n: u32| indexed_part(log, n, suffix);
    let rehash = |n: &u32| hash(part_of(*n));
    slots.reserve(log.len() - from, rehash);
    for n in from as u32..log.len() as u32 {
        let part = part_of(n);
        match slots.entry(hash(part), |other| part_of(*other) == part, rehash) {
            hashbrown::hash_table::Entry::Occupied(mut slot) => {
                // Times are stored inverted: the smaller key is the newer version. A later record
                // replaces one of an equal key.
                if suffix == 0 || log.key(n) <= log.key(*slot.get()) {
                    *slot.get_mut() = n;
                }
            }
            hashbrown::hash_table::Entry::Vacant(slot) => {
                slot.insert(n);
            }
        }
    }
}
