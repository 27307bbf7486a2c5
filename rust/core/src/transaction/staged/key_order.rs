//! The key order of a layer.
//!
//! Records staged since the last ordered read are sorted into a run. Two runs are merged if the
//! newer is at least half as long as the older. So a seek searches few runs, and a record is
//! merged a logarithmic number of times.

use super::record_log::RecordLog;
use crate::transaction::sort_prefix::{last_of_each_key, sort_by_prefix, sort_prefix};
use std::cmp::Ordering;
use std::sync::OnceLock;

/// A record in a run. The first 8 bytes of its key decide most comparisons without a read of the
/// arena.
#[derive(Clone, Copy)]
pub(in crate::transaction) struct OrderEntry {
    prefix: u64,
    record: u32,
}

impl OrderEntry {
    fn new(log: &RecordLog, record: u32) -> Self {
        Self {
            prefix: sort_prefix(log.key(record)),
            record,
        }
    }

    #[inline]
    pub(in crate::transaction) fn record(self) -> u32 {
        self.record
    }

    fn compare(self, other: Self, log: &RecordLog) -> Ordering {
        self.prefix
            .cmp(&other.prefix)
            .then_with(|| log.key(self.record).cmp(log.key(other.record)))
    }
}

/// The last record of each key of a layer, in key order.
#[derive(Clone, Default)]
pub(super) struct KeyOrder {
    runs: Vec<Vec<OrderEntry>>,
    /// How many records of the log the runs cover.
    ordered: usize,
    /// The one run of a layer that was not read in order before it was frozen. The first ordered
    /// read makes it.
    late: Option<OnceLock<Vec<OrderEntry>>>,
}

impl KeyOrder {
    /// Adds the records that were staged since the last call.
    pub(super) fn catch_up(&mut self, log: &RecordLog) {
        if self.ordered < log.len() {
            let run = sorted(log, self.ordered);
            self.ordered = log.len();
            self.runs.push(run);
            while let [.., a, b] = self.runs.as_slice()
                && b.len() * 2 >= a.len()
            {
                self.merge_last(log);
            }
        }
    }

    /// Merges all runs into one. If there was no ordered read yet, the first one sorts all records.
    pub(super) fn freeze(&mut self, log: &RecordLog) {
        if self.ordered == 0 {
            self.late = Some(OnceLock::new());
        } else {
            self.complete(log);
        }
    }

    /// Orders all records, in one run.
    pub(super) fn complete(&mut self, log: &RecordLog) {
        if let Some(run) = self.late.take().and_then(OnceLock::into_inner) {
            self.runs = vec![run];
            self.ordered = log.len();
        }
        self.catch_up(log);
        while self.runs.len() > 1 {
            self.merge_last(log);
        }
    }

    /// Uses the staged order: all records were staged in ascending key order, each key once.
    pub(super) fn set_staged_order(&mut self, log: &RecordLog) {
        let entries = (0..log.len() as u32).map(|record| OrderEntry::new(log, record));
        self.runs = vec![entries.collect()];
        self.ordered = log.len();
    }

    fn merge_last(&mut self, log: &RecordLog) {
        let (Some(newer), Some(older)) = (self.runs.pop(), self.runs.pop()) else {
            return;
        };
        self.runs.push(merged(log, &older, newer.iter().copied()));
    }

    /// The order of two frozen layers' records in one log. The newer layer's records begin at
    /// number `first` there. If one of the layers has no order yet, the first ordered read sorts
    /// all records.
    pub(super) fn joined(older: &Self, newer: &Self, first: u32, log: &RecordLog) -> Self {
        let newer_len = log.len() - first as usize;
        if let Some(older) = older.whole(first as usize)
            && let Some(newer) = newer.whole(newer_len)
        {
            let newer = newer.iter().map(|entry| OrderEntry {
                record: first + entry.record,
                ..*entry
            });
            return Self {
                runs: vec![merged(log, older, newer)],
                ordered: log.len(),
                late: None,
            };
        }
        Self {
            late: Some(OnceLock::new()),
            ..Self::default()
        }
    }

    /// The one run of all records, if it exists already.
    pub(super) fn whole(&self, records: usize) -> Option<&[OrderEntry]> {
        match (&self.late, self.runs.as_slice()) {
            (Some(late), _) => late.get().map(Vec::as_slice),
            (None, [run]) if self.ordered == records => Some(run),
            (None, _) if records == 0 => Some(&[]),
            _ => None,
        }
    }

    /// The first record whose key is at least `key`; if several runs have that key, the latest.
    pub(super) fn at_or_after(&self, log: &RecordLog, key: &[u8]) -> Option<u32> {
        self.nearest(
            log,
            |run| run.get(position(log, run, key)).map(|entry| entry.record),
            |a, b| log.key(a).cmp(log.key(b)),
        )
    }

    /// The last record whose key is below `key`; if several runs have that key, the latest.
    pub(super) fn before(&self, log: &RecordLog, key: &[u8]) -> Option<u32> {
        let last = |run: &[OrderEntry]| {
            position(log, run, key)
                .checked_sub(1)
                .map(|at| run[at].record)
        };
        self.nearest(log, last, |a, b| log.key(b).cmp(log.key(a)))
    }

    fn nearest(
        &self,
        log: &RecordLog,
        candidate: impl Fn(&[OrderEntry]) -> Option<u32>,
        compare: impl Fn(u32, u32) -> Ordering,
    ) -> Option<u32> {
        let late = self.late.is_some().then(|| self.run(log));
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

    /// The one run of a frozen layer.
    #[inline]
    pub(super) fn run(&self, log: &RecordLog) -> &[OrderEntry] {
        if let Some(late) = &self.late {
            return late.get_or_init(|| sorted(log, 0));
        }
        debug_assert!(self.runs.len() <= 1 && self.ordered == log.len());
        self.runs.first().map_or(&[], Vec::as_slice)
    }

    /// Position in the one run of the first key that is at least `key`.
    pub(super) fn run_position(&self, log: &RecordLog, key: &[u8]) -> usize {
        position(log, self.run(log), key)
    }

    /// The records in the order of a commit. The order is not remembered.
    pub(super) fn commit_order(&self, log: &RecordLog) -> Vec<u32> {
        match self.whole(log.len()) {
            Some(run) => run.iter().map(|entry| entry.record).collect(),
            None => last_of_each_key(log.len(), |n| log.key(n)),
        }
    }
}

/// Merges two runs; of equal keys the newer record remains.
fn merged(
    log: &RecordLog,
    older: &[OrderEntry],
    newer: impl ExactSizeIterator<Item = OrderEntry>,
) -> Vec<OrderEntry> {
    let mut merged = Vec::with_capacity(newer.len() + older.len());
    let (mut a, mut b) = (newer.peekable(), older.iter().copied().peekable());
    while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
        match x.compare(*y, log) {
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
    merged
}

fn position(log: &RecordLog, run: &[OrderEntry], key: &[u8]) -> usize {
    let wanted = sort_prefix(key);
    run.partition_point(|entry| match entry.prefix.cmp(&wanted) {
        Ordering::Less => true,
        Ordering::Greater => false,
        Ordering::Equal => log.key(entry.record) < key,
    })
}

/// A run of the records from number `from` on.
fn sorted(log: &RecordLog, from: usize) -> Vec<OrderEntry> {
    let mut run: Vec<OrderEntry> = (from as u32..log.len() as u32)
        .map(|record| OrderEntry::new(log, record))
        .collect();
    sort(log, &mut run);
    run
}

/// Sorts by key; of equal keys the later record remains.
fn sort(log: &RecordLog, run: &mut Vec<OrderEntry>) {
    let by_key = |a: &OrderEntry, b: &OrderEntry| a.compare(*b, log);
    sort_by_prefix(
        run,
        |entry| entry.prefix,
        |a, b| by_key(a, b).then(b.record.cmp(&a.record)),
    );
    run.dedup_by(|b, a| by_key(a, b).is_eq());
}
