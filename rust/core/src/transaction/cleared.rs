//! Intervals of keys whose stored rows a transaction has deleted (`layout.md` section 2): they hide
//! what lies below the staged records, never a staged record. Copied on write, so a reader's view
//! of them is repeatable.

use super::{Batch, Place, Step, Table, Transaction};
use crate::error::Result;
use crate::table::Bounds;
use std::sync::Arc;

/// From the first key, inclusive, to the end, exclusive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) from: Vec<u8>,
    pub(super) to: Vec<u8>,
}

impl Interval {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.from.len() + self.to.len()
    }
}

/// Disjoint intervals in ascending order; no allocation while there are none.
#[derive(Clone, Default)]
pub(super) struct Cleared {
    intervals: Option<Arc<Vec<Interval>>>,
    bytes: usize,
}

impl Cleared {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.intervals.is_none()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Interval> {
        self.intervals.iter().flat_map(|intervals| intervals.iter())
    }

    /// Memory of the intervals, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds an interval, which becomes one with those that it meets.
    pub(super) fn add(&mut self, mut added: Interval) {
        let intervals = Arc::make_mut(self.intervals.get_or_insert_default());
        let first = intervals.partition_point(|interval| interval.to < added.from);
        let behind = intervals.partition_point(|interval| interval.from <= added.to);
        if let [lowest, ..] = &intervals[first..behind]
            && lowest.from < added.from
        {
            added.from.clone_from(&lowest.from);
        }
        if let [.., highest] = &intervals[first..behind]
            && highest.to > added.to
        {
            added.to.clone_from(&highest.to);
        }
        self.bytes += added.bytes();
        self.bytes -= intervals
            .splice(first..behind, [added])
            .map(|interval| interval.bytes())
            .sum::<usize>();
    }

    /// The interval that a key lies in.
    #[inline]
    pub(super) fn around(&self, key: &[u8]) -> Option<&Interval> {
        let intervals = self.intervals.as_ref()?;
        let at = intervals.partition_point(|interval| interval.to.as_slice() <= key);
        intervals
            .get(at)
            .filter(|interval| interval.from.as_slice() <= key)
    }

    /// Whether the stored row of a key is hidden.
    #[inline]
    pub(super) fn hides(&self, key: &[u8]) -> bool {
        self.around(key).is_some()
    }
}

impl Transaction {
    /// Deletes all rows within bounds, staged ones and stored ones.
    pub(crate) fn delete_range(&mut self, table: Table, bounds: &Bounds) -> Result<()> {
        let Place::Files(_) = table.place else {
            return self.delete_each(table, bounds);
        };
        // From the first row to the last one: what is kept has two ends even where the bounds have
        // none.
        let interval = self.base.cursor(table, bounds)?.with(|rows| {
            rows.seek_to_first();
            let from = rows.key()?.to_vec();
            rows.seek_to_last();
            Some(Interval {
                from,
                to: [rows.key()?, &[0]].concat(),
            })
        })?;
        let buffer = &mut self.buffers[table.number];
        if let Some(interval) = interval {
            buffer.clear(interval);
        }
        buffer.delete_staged(bounds);
        Ok(())
    }

    /// Rows in memory are staged layers grown old: an interval would have to be looked for in each
    /// of them.
    fn delete_each(&mut self, table: Table, bounds: &Bounds) -> Result<()> {
        let keys = self.keys(table, bounds)?;
        keys.iter()
            .try_for_each(|key| self.stage(table, &[key], None, false))
    }

    /// The keys of all rows within bounds.
    pub(crate) fn keys(&mut self, table: Table, bounds: &Bounds) -> Result<Vec<Vec<u8>>> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        self.scan(table, bounds.clone(), false)?
            .for_each(&mut |key, _| {
                keys.push(key.to_vec());
                Step::Next
            })?;
        Ok(keys)
    }

    /// Stages a delete of each stored row that a range delete hides, instead of the range; after an
    /// error there is the range still.
    pub(super) fn expand_cleared(&mut self, table: Table) -> Result<()> {
        let buffer = &mut self.buffers[table.number];
        buffer.catch_up();
        let mut keys: Vec<Vec<u8>> = Vec::new();
        for Interval { from, to } in buffer.cleared().iter() {
            let bounds = Bounds {
                lower: Some(from.clone()),
                upper: Some(to.clone()),
                within_key: false,
            };
            self.base.cursor(table, &bounds)?.with(|rows| {
                rows.seek_to_first();
                while let Some(key) = rows.key() {
                    if buffer.find(key).is_none() {
                        keys.push(key.to_vec());
                    }
                    rows.next();
                }
            })?;
        }
        buffer.take_cleared();
        for key in keys {
            buffer.push(&[&key], None, false);
        }
        Ok(())
    }

    /// Adds the deletes of ranges to a batch, and gives them up; to be called before the table is
    /// drained, since a staged record of a deleted range came later.
    pub(crate) fn drain_cleared(&mut self, table: Table, batch: &mut Batch) {
        for interval in self.buffers[table.number].take_cleared().iter() {
            batch.push_delete_range(table.family_id(), &interval.from, &interval.to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn intervals_hide_what_was_added_and_their_copies_stay(
            added in prop::collection::vec((prop::collection::vec(0u8..3, 0..4),
                prop::collection::vec(0u8..3, 0..4)), 0..20),
            asked in prop::collection::vec(prop::collection::vec(0u8..3, 0..5), 20),
        ) {
            let mut cleared = Cleared::default();
            let mut model: BTreeSet<(Vec<u8>, Vec<u8>)> = BTreeSet::new();
            let mut copies = vec![(cleared.clone(), model.clone())];
            for (from, to) in added.into_iter().filter(|(from, to)| from < to) {
                cleared.add(Interval { from: from.clone(), to: to.clone() });
                model.insert((from, to));
                copies.push((cleared.clone(), model.clone()));
            }
            for (cleared, model) in &copies {
                for key in &asked {
                    prop_assert_eq!(cleared.hides(key), model.iter()
                        .any(|(from, to)| from <= key && key < to));
                }
                let intervals: Vec<_> = cleared.iter().collect();
                prop_assert!(intervals.windows(2).all(|pair| pair[0].to < pair[1].from),
                    "{intervals:?}");
                prop_assert_eq!(cleared.bytes(), intervals.iter().map(|interval| interval.bytes())
                    .sum::<usize>());
                prop_assert_eq!(cleared.is_empty(), model.is_empty());
            }
        }
    }
}
