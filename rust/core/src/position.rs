//! Input positions: how far the input had been read when a state was written (`stores.md` section
//! 4).

use crate::offset::{Offset, TopicPartition};
use std::collections::BTreeMap;

/// For each input partition the greatest offset whose writes a state holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position(BTreeMap<TopicPartition, Offset>);

impl Position {
    /// Notes an offset; a smaller one than known changes nothing.
    pub fn observe(&mut self, tp: TopicPartition, offset: Offset) {
        let known = self.0.entry(tp).or_insert(offset);
        *known = offset.max(*known);
    }

    /// Takes over all offsets of another position.
    pub fn merge(&mut self, other: &Self) {
        for (tp, offset) in &other.0 {
            self.observe(tp.clone(), *offset);
        }
    }

    /// The offset of one partition.
    pub fn get(&self, tp: &TopicPartition) -> Option<Offset> {
        self.0.get(tp).copied()
    }

    /// The offsets, by topic and partition.
    pub fn offsets(&self) -> impl Iterator<Item = (&TopicPartition, Offset)> {
        self.0.iter().map(|(tp, offset)| (tp, *offset))
    }

    /// Whether nothing was observed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first partition in which this position has not reached the other, with both offsets.
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
    fn a_position_only_advances() {
        let mut seen = position(&[(0, 5), (1, 7)]);
        seen.merge(&position(&[(0, 3), (1, 9), (2, 0)]));
        assert_eq!(seen, position(&[(0, 5), (1, 9), (2, 0)]));
    }

    #[test]
    fn a_bound_is_reached_in_every_partition_that_it_names() {
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
