//! The record of an epoch's decision.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::counts::Counts;
use crate::protocol::digest::Digest;
use crate::protocol::number::{Epoch, PartitionId, RunNumber};
use crate::protocol::operator::OperatorName;

/// The result of an epoch, recorded once by the first host that finds Spark's commit of it.
///
/// From then on neither a late object of a stale task nor a newer run changes it. Only a rewind
/// begins a new record, under another name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochDecision {
    /// The epoch.
    pub epoch: Epoch,
    /// The run of the newest rewind or drop that covers the epoch; 0 if there is none.
    pub rewind: RunNumber,
    /// The run whose objects are the epoch's result. None if no operator was evaluated: the epoch
    /// is *skipped*.
    pub run: Option<RunNumber>,
    /// The digest of Spark's offsets of the epoch.
    pub offsets: Digest,
    /// Since when no source but the heartbeats has moved, in epoch microseconds; none if one has,
    /// if the query has no heartbeats, or if the epoch was skipped.
    pub sources_idle_since: Option<i64>,
    /// The result of each operator, by partition.
    pub operators: BTreeMap<OperatorName, Vec<PartitionDecision>>,
}

/// The result of one partition of an operator in an epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionDecision {
    /// The chain before the epoch.
    pub base: Digest,
    /// The epoch's own digest.
    pub digest: Digest,
    /// The operator's stream time after the epoch, in microseconds, which idle partitions follow.
    /// None if the operator has no stream time, or has had no row with a time.
    pub stream_time: Option<i64>,
    /// Each store's stream time after the epoch, in microseconds.
    pub stream_times: BTreeMap<String, i64>,
    /// Since when the partition has had no rows that advance its stream time, in epoch
    /// microseconds; none if it had some, if the query has no heartbeats, or if the epoch was
    /// skipped.
    pub idle_since: Option<i64>,
    /// The epoch's rows.
    pub counts: Counts,
}

impl PartitionDecision {
    /// Returns the chain after the epoch.
    #[must_use]
    pub fn chain(&self) -> Digest {
        self.base.chain(self.digest)
    }
}

impl Default for PartitionDecision {
    fn default() -> Self {
        Self {
            base: Digest::ZERO,
            digest: Digest::ZERO,
            stream_time: None,
            stream_times: BTreeMap::new(),
            idle_since: None,
            counts: Counts::default(),
        }
    }
}

impl EpochDecision {
    /// Returns the decision of an epoch in which no operator was evaluated.
    ///
    /// The chain of each operator advances by a fixed digest, and its stream times stay. Idle times
    /// begin again.
    ///
    /// `previous`: the decision of the epoch before; none if no operator had taken part by then.
    #[must_use]
    pub fn skipped(
        epoch: Epoch,
        rewind: RunNumber,
        offsets: Digest,
        previous: Option<&Self>,
    ) -> Self {
        let skip = |before: &PartitionDecision| PartitionDecision {
            base: before.chain(),
            digest: skipped_digest(),
            stream_time: before.stream_time,
            stream_times: before.stream_times.clone(),
            idle_since: None,
            counts: Counts::default(),
        };
        Self {
            epoch,
            rewind,
            run: None,
            offsets,
            sources_idle_since: None,
            operators: previous
                .iter()
                .flat_map(|previous| &previous.operators)
                .map(|(operator, partitions)| {
                    (operator.clone(), partitions.iter().map(skip).collect())
                })
                .collect(),
        }
    }

    /// Returns the result of a partition; none if the epoch's decision does not name it.
    #[must_use]
    pub fn of(
        &self,
        operator: &OperatorName,
        partition: PartitionId,
    ) -> Option<&PartitionDecision> {
        let index = usize::try_from(partition.0).ok()?;
        self.operators.get(operator)?.get(index)
    }
}

/// The digest by which a skipped epoch advances each chain.
fn skipped_digest() -> Digest {
    Digest::of(b"skipped")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_epoch_advances_each_chain_and_keeps_stream_times() {
        let operator = OperatorName::new("rates").expect("a name");
        let partition = PartitionDecision {
            digest: Digest::of(b"x"),
            stream_time: Some(5),
            stream_times: BTreeMap::from([("rates".to_owned(), 7)]),
            ..PartitionDecision::default()
        };
        let before = EpochDecision {
            epoch: Epoch(3),
            rewind: RunNumber(0),
            run: Some(RunNumber(1)),
            offsets: Digest::ZERO,
            sources_idle_since: None,
            operators: BTreeMap::from([(operator.clone(), vec![partition.clone()])]),
        };
        let skipped = EpochDecision::skipped(
            Epoch(4),
            RunNumber(0),
            Digest::of(b"offsets"),
            Some(&before),
        );
        let after = skipped.of(&operator, PartitionId(0)).expect("is named");
        assert_eq!(after.base, partition.chain());
        assert_ne!(after.chain(), after.base);
        assert_eq!(
            (after.stream_time, &after.stream_times),
            (partition.stream_time, &partition.stream_times)
        );
        assert_eq!(skipped.of(&operator, PartitionId(1)), None);
        let json = serde_json::to_string(&skipped).expect("serializes");
        let parsed: EpochDecision = serde_json::from_str(&json).expect("parses");
        assert_eq!(parsed, skipped);
    }
}
