//! Staged records of one table: an arena log, a hash index over it, and its order, both made only
//! when somebody asks.
//!
//! - *Index.* Records are appended without looking; the index catches up at the next read. A
//!   key-value table is indexed by its whole key, a versioned one by the key without the 8 bytes of
//!   time at its end, pointing to the newest version.
//! - *Order.* Records that came since the last ordered read are sorted into a run; runs are merged
//!   when the newer is at least half as long as the one before, so a seek meets few of them and a
//!   record is merged a logarithmic number of times.

use super::arena::{Arena, Record};
use crate::transaction::sort_prefix::sort_prefix as prefix;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::cmp::Ordering;
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

/// Keys come from users: a seed of the process's own keeps them from being chosen to collide. One
/// for all layers, so that a key looked for in several is hashed once.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::default);

/// The hash that the index knows a key by.
#[inline]
pub(in crate::transaction) fn hash(part: &[u8]) -> u64 {
    HASHER.hash_one(part)
}

/// Bytes that the index takes for a record: 5 a slot, of which it leaves up to nine in sixteen
/// empty.
const INDEXED: usize = 12;

/// A record in a run: the first 8 bytes of its key decide most comparisons without a look at the
/// arena.
#[derive(Clone, Copy)]
pub(in crate::transaction) struct Entry {
    prefix: u64,
    record: u32,
}

pub(in crate::transaction) struct Layer {
    arena: Arena,
    records: Vec<Record>,
    index: HashTable<u32>,
    indexed: usize,
    /// That of a frozen layer in which no key was looked for before.
    late_index: Option<OnceLock<HashTable<u32>>>,
    runs: Vec<Vec<Entry>>,
    ordered: usize,
    /// The one run of a frozen layer that nobody had read in order before.
    late_run: Option<OnceLock<Vec<Entry>>>,
    deletes: usize,
    family: u32,
    /// Bytes at a key's end that the index leaves out.
    suffix: usize,
}

impl Layer {
    pub(in crate::transaction) fn new(family: u32, suffix: usize) -> Self {
        Self {
            arena: Arena::default(),
            records: Vec::new(),
            index: HashTable::new(),
            indexed: 0,
            late_index: None,
            runs: Vec::new(),
            ordered: 0,
            late_run: None,
            deletes: 0,
            family,
            suffix,
        }
    }

    pub(in crate::transaction) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub(in crate::transaction) fn len(&self) -> usize {
        self.records.len()
    }

    /// How many of the records are deletes.
    pub(in crate::transaction) fn deletes(&self) -> usize {
        self.deletes
    }

    #[inline]
    pub(in crate::transaction) fn push(
        &mut self,
        key: &[&[u8]],
        value: Option<&[&[u8]]>,
        newest: bool,
    ) {
        let record = self.arena.push(self.family, key, value, newest);
        self.deletes += usize::from(value.is_none());
        self.records.push(record);
    }

    pub(in crate::transaction) fn key(&self, n: u32) -> &[u8] {
        self.arena.key(self.records[n as usize])
    }

    pub(in crate::transaction) fn value(&self, n: u32) -> Option<&[u8]> {
        self.arena.value(self.records[n as usize])
    }

    /// Key and value of a record.
    pub(in crate::transaction) fn row(&self, n: u32) -> (&[u8], Option<&[u8]>) {
        let record = self.records[n as usize];
        (self.arena.key(record), self.arena.value(record))
    }

    pub(in crate::transaction) fn newest(&self, n: u32) -> bool {
        self.records[n as usize].newest
    }

    pub(in crate::transaction) fn encoded(&self, n: u32) -> &[u8] {
        self.arena.encoded(self.records[n as usize])
    }

    /// Memory that giving this layer up would free. It grows with each record and never by leaps,
    /// so that whoever keeps to a limit can tell by the last record whether the next one passes it:
    /// index and order count from the first, built or not.
    pub(in crate::transaction) fn bytes(&self) -> usize {
        self.arena.bytes()
            + self.records.len() * (size_of::<Record>() + INDEXED + size_of::<Entry>())
    }

    /// Brings the index up to date.
    pub(in crate::transaction) fn catch_up(&mut self) {
        if self.indexed < self.records.len() {
            let mut index = std::mem::take(&mut self.index);
            self.add_to(&mut index, self.indexed);
            self.index = index;
            self.indexed = self.records.len();
        }
    }

    fn add_to(&self, index: &mut HashTable<u32>, from: usize) {
        let Self {
            arena,
            records,
            suffix,
            ..
        } = self;
        let indexed_part = |n: u32| {
            let key = arena.key(records[n as usize]);
            &key[..key.len() - *suffix]
        };
        let rehash = |n: &u32| hash(indexed_part(*n));
        index.reserve(records.len() - from, rehash);
        for n in from as u32..records.len() as u32 {
            let part = indexed_part(n);
            match index.entry(hash(part), |other| indexed_part(*other) == part, rehash) {
                hashbrown::hash_table::Entry::Occupied(mut slot) => {
                    // Times are stored inverted: the smaller key is the newer version. A later
                    // record replaces its equal.
                    if *suffix == 0
                        || arena.key(records[n as usize])
                            <= arena.key(records[*slot.get() as usize])
                    {
                        *slot.get_mut() = n;
                    }
                }
                hashbrown::hash_table::Entry::Vacant(slot) => {
                    slot.insert(n);
                }
            }
        }
    }

    /// Nothing more is added: index and order, if there is none yet, are made when somebody first
    /// asks, by whoever asks: a reader takes its view under the writer's lock, and sorts outside of
    /// it.
    pub(in crate::transaction) fn freeze(&mut self) {
        if self.ordered > 0 {
            self.order_fully();
        } else {
            self.late_run = Some(OnceLock::new());
        }
        if self.indexed > 0 {
            self.catch_up();
        } else {
            self.late_index = Some(OnceLock::new());
        }
    }

    /// The last record of a key (of its newest version); the index must have caught up.
    #[inline]
    pub(in crate::transaction) fn find(&self, part: &[u8]) -> Option<u32> {
        if self.records.is_empty() {
            None
        } else {
            self.find_hashed(hash(part), part)
        }
    }

    /// As `find`, with the key's hash at hand.
    #[inline]
    pub(in crate::transaction) fn find_hashed(&self, hash: u64, part: &[u8]) -> Option<u32> {
        let index = match &self.late_index {
            None => &self.index,
            Some(late) => late.get_or_init(|| {
                let mut index = HashTable::new();
                self.add_to(&mut index, 0);
                index
            }),
        };
        debug_assert!(self.late_index.is_some() || self.indexed == self.records.len());
        let same = |n: &u32| {
            let key = self.key(*n);
            key[..key.len() - self.suffix] == *part
        };
        index.find(hash, same).copied()
    }

    fn compare(&self, a: Entry, b: Entry) -> Ordering {
        a.prefix
            .cmp(&b.prefix)
            .then_with(|| self.key(a.record).cmp(self.key(b.record)))
    }

    fn sorted(&self, from: usize) -> Vec<Entry> {
        let mut run: Vec<Entry> = (from as u32..self.records.len() as u32)
            .map(|record| Entry {
                prefix: prefix(self.key(record)),
                record,
            })
            .collect();
        // Of equal keys the later record comes first, and is the one that stays.
        run.sort_unstable_by(|a, b| self.compare(*a, *b).then(b.record.cmp(&a.record)));
        run.dedup_by(|b, a| self.compare(*a, *b).is_eq());
        run
    }

    /// Brings the order up to date, so that `lower_bound` may be asked.
    pub(in crate::transaction) fn order(&mut self) {
        if self.ordered < self.records.len() {
            let run = self.sorted(self.ordered);
            self.ordered = self.records.len();
            self.runs.push(run);
            while let [.., a, b] = self.runs.as_slice()
                && b.len() * 2 >= a.len()
            {
                self.merge_last();
            }
        }
    }

    /// Brings everything into one run.
    fn order_fully(&mut self) {
        self.order();
        while self.runs.len() > 1 {
            self.merge_last();
        }
    }

    /// All records were pushed in ascending key order, each key once: the order is there already.
    pub(in crate::transaction) fn pushed_in_order(&mut self) {
        let entries = (0..self.records.len() as u32).map(|record| Entry {
            prefix: prefix(self.key(record)),
            record,
        });
        self.runs = vec![entries.collect()];
        self.ordered = self.records.len();
    }

    fn merge_last(&mut self) {
        let (Some(newer), Some(older)) = (self.runs.pop(), self.runs.pop()) else {
            return;
        };
        let mut merged = Vec::with_capacity(newer.len() + older.len());
        let (mut a, mut b) = (newer.iter().peekable(), older.iter().peekable());
        while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
            match self.compare(**x, **y) {
                Ordering::Less => merged.extend(a.next()),
                Ordering::Greater => merged.extend(b.next()),
                Ordering::Equal => {
                    merged.extend(a.next());
                    b.next();
                }
            }
        }
        merged.extend(a);
        merged.extend(b);
        self.runs.push(merged);
    }

    /// The first record whose key is at least `key`; of equals in several runs the latest.
    pub(in crate::transaction) fn at_or_after(&self, key: &[u8]) -> Option<u32> {
        self.nearest(
            |run| run.get(self.position(run, key)).map(|entry| entry.record),
            |a, b| self.key(a).cmp(self.key(b)),
        )
    }

    /// The last record whose key is below `key`; of equals in several runs the latest.
    pub(in crate::transaction) fn before(&self, key: &[u8]) -> Option<u32> {
        let last = |run: &[Entry]| {
            self.position(run, key)
                .checked_sub(1)
                .map(|at| run[at].record)
        };
        self.nearest(last, |a, b| self.key(b).cmp(self.key(a)))
    }

    fn nearest(
        &self,
        candidate: impl Fn(&[Entry]) -> Option<u32>,
        compare: impl Fn(u32, u32) -> Ordering,
    ) -> Option<u32> {
        let late = self.late_run.is_some().then(|| self.run());
        let candidates = self
            .runs
            .iter()
            .map(Vec::as_slice)
            .chain(late)
            .filter_map(candidate);
        candidates.reduce(|best, next| match compare(best, next) {
            Ordering::Less => best,
            Ordering::Equal | Ordering::Greater => next,
        })
    }

    fn position(&self, run: &[Entry], key: &[u8]) -> usize {
        let wanted = prefix(key);
        run.partition_point(|entry| match entry.prefix.cmp(&wanted) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => self.key(entry.record) < key,
        })
    }

    /// The one run of a fully ordered layer.
    pub(in crate::transaction) fn run(&self) -> &[Entry] {
        if let Some(late) = &self.late_run {
            return late.get_or_init(|| self.sorted(0));
        }
        debug_assert!(self.runs.len() <= 1 && self.ordered == self.records.len());
        self.runs.first().map_or(&[], Vec::as_slice)
    }

    /// Reads every line of a short record at these positions of the one run, so that the processor
    /// has them at hand, and those of a long one with its key and its end.
    pub(in crate::transaction) fn touch(&self, positions: Range<usize>) {
        for entry in &self.run()[positions] {
            let record = self.encoded(entry.record);
            // The bytes themselves: of a reference only the address would be worked out.
            std::hint::black_box((
                record.first().copied(),
                record.get(64).copied(),
                record.last().copied(),
            ));
        }
    }

    /// Position in the one run of the first key that is at least `key`.
    pub(in crate::transaction) fn run_position(&self, key: &[u8]) -> usize {
        self.position(self.run(), key)
    }

    /// The keys' last records in key order, without keeping the order: what a commit needs.
    pub(in crate::transaction) fn commit_order(&self) -> Vec<u32> {
        let late = self.late_run.as_ref().and_then(OnceLock::get);
        let whole = if self.ordered == self.records.len() {
            self.runs.as_slice()
        } else {
            &[]
        };
        match (late, whole) {
            (Some(run), _) | (None, [run]) => run.iter().map(|entry| entry.record).collect(),
            _ => self.sorted_for_commit(),
        }
    }

    /// As `sorted(0)`, with the prefix taken behind what all keys share: keys like
    /// `customer-000017` differ late.
    fn sorted_for_commit(&self) -> Vec<u32> {
        let Some(first) = self.records.first() else {
            return Vec::new();
        };
        let first = self.arena.key(*first);
        let mut shared = first.len();
        for record in &self.records {
            let key = self.arena.key(*record);
            let same = key
                .iter()
                .zip(&first[..shared])
                .take_while(|(a, b)| a == b)
                .count();
            shared = shared.min(same);
        }
        let mut run: Vec<Entry> = (0..self.records.len() as u32)
            .map(|record| Entry {
                prefix: prefix(&self.key(record)[shared..]),
                record,
            })
            .collect();
        let compare = |a: &Entry, b: &Entry| self.compare(*a, *b);
        run.sort_unstable_by(|a, b| compare(a, b).then(b.record.cmp(&a.record)));
        run.dedup_by(|b, a| compare(a, b).is_eq());
        run.into_iter().map(|entry| entry.record).collect()
    }
}

impl Entry {
    pub(in crate::transaction) fn record(self) -> u32 {
        self.record
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn a_layer_answers_as_a_map(ops in prop::collection::vec((prop::collection::vec(0u8..3,
            0..11), prop::option::of(0u8..9), 0u8..4), 0..200)) {
            let mut layer = Layer::new(7, 0);
            let mut model: BTreeMap<Vec<u8>, Option<u8>> = BTreeMap::new();
            for (key, value, ask) in ops {
                let bytes = value.map(|v| [v]);
                layer.push(&[&key], bytes.as_ref().map(|v| [v.as_slice()]).as_ref()
                    .map(|v| v.as_slice()), false);
                model.insert(key.clone(), value);
                if ask == 0 {
                    layer.catch_up();
                    let found = layer.find(&key).map(|n| layer.value(n).map(|v| v[0]));
                    prop_assert_eq!(found, model.get(&key).copied());
                }
                if ask == 1 {
                    layer.order();
                    let after = layer.at_or_after(&key[..key.len() / 2])
                        .map(|n| (layer.key(n).to_vec(), layer.value(n).map(|v| v[0])));
                    let expected = model.range(key[..key.len() / 2].to_vec()..).next()
                        .map(|(k, v)| (k.clone(), *v));
                    prop_assert_eq!(after, expected);
                    let before = layer.before(&key)
                        .map(|n| (layer.key(n).to_vec(), layer.value(n).map(|v| v[0])));
                    let expected = model.range(..key.clone()).next_back()
                        .map(|(k, v)| (k.clone(), *v));
                    prop_assert_eq!(before, expected);
                }
            }
            let rows = |order: &[u32]| -> Vec<_> { order.iter()
                .map(|n| (layer.key(*n).to_vec(), layer.value(*n).map(|v| v[0]))).collect() };
            prop_assert_eq!(rows(&layer.commit_order()), model.clone()
                .into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn a_frozen_layer_answers_as_a_map(
            rows in prop::collection::vec((prop::collection::vec(0u8..3, 0..11),
                prop::option::of(0u8..9)), 0..100),
            ordered_at in prop::option::of(0usize..100),
            asked in prop::collection::vec(prop::collection::vec(0u8..3, 0..11), 10),
            run_first in any::<bool>(),
        ) {
            let mut layer = Layer::new(7, 0);
            let mut model: BTreeMap<Vec<u8>, Option<u8>> = BTreeMap::new();
            for (n, (key, value)) in rows.into_iter().enumerate() {
                layer.push(&[&key], value.as_ref().map(std::slice::from_ref).as_ref()
                    .map(std::slice::from_ref), false);
                model.insert(key, value);
                if ordered_at == Some(n) {
                    layer.order();
                }
            }
            layer.freeze();
            let row = |n: u32| (layer.key(n).to_vec(), layer.value(n).map(|v| v[0]));
            let all: Vec<_> = model.clone().into_iter().collect();
            if run_first {
                prop_assert_eq!(&layer.run().iter()
                    .map(|entry| row(entry.record())).collect::<Vec<_>>(), &all);
            }
            prop_assert_eq!(&layer.commit_order().into_iter().map(row).collect::<Vec<_>>(), &all);
            for key in asked {
                let map = |(key, value): (&Vec<u8>, &Option<u8>)| (key.clone(), *value);
                prop_assert_eq!(layer.find(&key).map(row), model.get_key_value(&key).map(map));
                prop_assert_eq!(layer.at_or_after(&key).map(row), model.range(key.clone()..).next()
                    .map(map));
                prop_assert_eq!(layer.before(&key).map(row), model.range(..key.clone()).next_back()
                    .map(map));
            }
            prop_assert_eq!(&layer.run().iter()
                .map(|entry| row(entry.record())).collect::<Vec<_>>(), &all);
        }
    }
}
