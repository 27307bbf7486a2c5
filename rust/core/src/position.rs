//! Input positions: how much of the input a state contains (`docs/design/stores.md`).

use crate::offset::{Offset, TopicPartition};
use std::collections::BTreeMap;

/// The greatest offset of each input partition whose writes a state contains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position(BTreeMap<TopicPartition, Offset>);

impl Position {
    /// Records an offset if it is greater than the partition's recorded offset.
    pub fn observe(&mut self, tp: TopicPartition, offset: Offset) {
        let known = self.0.entry(tp).or_insert(offset);
        *known = offset.max(*known);
    }

    /// Records all offsets of another position.
    pub fn merge(&mut self, other: &Self) {
        for (tp, offset) in &other.0 {
            self.observe(tp.clone(), *offset);
        }
    }

    /// Returns the offset of one partition.
    pub fn get(&self, tp: &TopicPartition) -> Option<Offset> {
        self.0.get(tp).copied()
    }

    /// Returns the offsets, ordered by topic and partition.
    pub fn offsets(&self) -> impl Iterator<Item = (&TopicPartition, Offset)> {
        self.0.iter().map(|(tp, offset)| (tp, *offset))
    }

    /// Whether this position is at or after `other` in each partition that this position has; true
    /// if it has none.
    pub(crate) fn reaches(&self, other: &Self) -> bool {
        self.offsets()
            .all(|(tp, offset)| other.get(tp).is_none_or(|wanted| wanted <= offset))
    }

    /// Returns whether there are no offsets.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the first partition in which this position is behind `bound`, with both offsets.
    pub fn behind<'a>(
        &self,
        bound: &'a Self,
    ) -> Option<(&'a TopicPartition, Option<Offset>, Offset)> {
        bound
            .0
            .iter()
            .map(|(tp, wanted)| (tp, self.get(tp), *wanted))
            .find(|(_, known, wanted)| known.is_none_or(|known| known < *wanted))
    }
}

impl FromIterator<(TopicPartition, Offset)> for Position {
    fn from_iter<I: IntoIterator<Item = (TopicPartition, Offset)>>(offsets: I) -> Self {
        let mut position = Self::default();
        offsets
            .into_iter()
            .for_each(|(tp, offset)| position.observe(tp, offset));
        position
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(offsets: &[(i32, i64)]) -> Position {
        offsets
            .iter()
            .map(|(partition, offset)| {
                (
                    TopicPartition {
                        topic: "in".into(),
                        partition: *partition,
                    },
                    Offset(*offset),
                )
            })
            .collect()
    }

    #[test]
    fn merge_takes_the_greater_offset() {
        let mut seen = position(&[(0, 5), (1, 7)]);
        seen.merge(&position(&[(0, 3), (1, 9), (2, 0)]));
        assert_eq!(seen, position(&[(0, 5), (1, 9), (2, 0)]));
    }

    #[test]
    fn behind_compares_the_partitions_of_the_bound() {
        let seen = position(&[(0, 5), (1, 7)]);
        assert_eq!(seen.behind(&position(&[(1, 7)])), None);
        assert_eq!(seen.behind(&position(&[])), None);
        assert_eq!(
            seen.behind(&position(&[(0, 5), (1, 8)]))
                .map(|(tp, known, wanted)| (tp.partition, known, wanted)),
            Some((1, Some(Offset(7)), Offset(8)))
        );
        assert_eq!(
            seen.behind(&position(&[(2, 0)]))
                .map(|(tp, known, _)| (tp.partition, known)),
            Some((2, None))
        );
    }
}
