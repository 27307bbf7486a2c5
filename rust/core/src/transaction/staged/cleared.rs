//! Intervals of keys whose stored rows a transaction has deleted.
//!
//! They hide stored rows and never a staged record. They are copied on write, so a reader's view of
//! them is repeatable.

use std::sync::Arc;

/// From the first key, inclusive, to the end, exclusive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::transaction) struct Interval {
    pub(in crate::transaction) from: Vec<u8>,
    pub(in crate::transaction) to: Vec<u8>,
}

impl Interval {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.from.len() + self.to.len()
    }
}

/// Disjoint intervals in ascending order; no allocation while there are none.
#[derive(Clone, Default)]
pub(in crate::transaction) struct Cleared {
    intervals: Option<Arc<Vec<Interval>>>,
    bytes: usize,
}

impl Cleared {
    #[inline]
    pub(in crate::transaction) fn is_empty(&self) -> bool {
        self.intervals.is_none()
    }

    pub(in crate::transaction) fn iter(&self) -> impl Iterator<Item = &Interval> {
        self.intervals.iter().flat_map(|intervals| intervals.iter())
    }

    /// Memory of the intervals, in bytes.
    pub(in crate::transaction) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds an interval, and merges it with those that it touches.
    pub(in crate::transaction) fn add(&mut self, mut added: Interval) {
        let intervals = Arc::make_mut(self.intervals.get_or_insert_default());
        let first = intervals.partition_point(|interval| interval.to < added.from);
        let end = intervals.partition_point(|interval| interval.from <= added.to);
        if let [lowest, ..] = &intervals[first..end]
            && lowest.from < added.from
        {
            added.from.clone_from(&lowest.from);
        }
        if let [.., highest] = &intervals[first..end]
            && highest.to > added.to
        {
            added.to.clone_from(&highest.to);
        }
        self.bytes += added.bytes();
        self.bytes -= intervals
            .splice(first..end, [added])
            .map(|interval| interval.bytes())
            .sum::<usize>();
    }

    /// The interval that contains a key.
    #[inline]
    pub(in crate::transaction) fn around(&self, key: &[u8]) -> Option<&Interval> {
        let intervals = self.intervals.as_ref()?;
        let at = intervals.partition_point(|interval| interval.to.as_slice() <= key);
        intervals
            .get(at)
            .filter(|interval| interval.from.as_slice() <= key)
    }

    /// Whether the stored row of a key is hidden.
    #[inline]
    pub(in crate::transaction) fn hides(&self, key: &[u8]) -> bool {
        self.around(key).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn intervals_hide_their_keys_and_copies_are_repeatable(
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
