//! Decides which run's objects are an epoch's result.

use std::collections::{BTreeMap, BTreeSet};

use super::stage::{HeadSummary, reproduces};
use crate::protocol::number::{PartitionId, RunNumber};
use crate::protocol::object::ObjectId;
use crate::protocol::operator::OperatorName;

/// The decision that an epoch's objects allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// This run decides, for all operators and partitions.
    Run(RunNumber),
    /// The plan was evaluated in part: no run is whole, or a newer run contradicts the whole run.
    Partial {
        /// The highest run that has objects, or the one that contradicts the whole run.
        run: RunNumber,
        /// The operators and partitions that this run lacks; empty if it contradicts a whole run.
        missing: Vec<(OperatorName, PartitionId)>,
    },
    /// There are no objects: no operator was evaluated.
    Nothing,
}

impl Decision {
    /// The run that decides; none if no run does.
    #[must_use]
    pub fn whole_run(&self) -> Option<RunNumber> {
        match self {
            Self::Run(run) => Some(*run),
            Self::Partial { .. } | Self::Nothing => None,
        }
    }
}

/// Decides an epoch by its objects.
///
/// The highest whole run wins ([`highest_whole`]). For each object of a run above it, the whole run
/// must have an object of the same operator and partition with the same base and digest. Otherwise
/// the epoch was evaluated in part.
///
/// The reason: a run whose tasks all succeeded was whole before any newer run claimed, so every
/// newer object reproduces it. If a newer object differs, the whole run became whole later, when
/// one of its fenced tasks put the last object. So no sink has the output of the whole run. But the
/// newer run may be committed, although it was evaluated only in part, for example by `take`.
///
/// `summary` reads the summary of an object; none if the object does not exist.
///
/// # Errors
/// Those of `summary`.
pub fn decide<E>(
    objects: &[ObjectId],
    partitions: u32,
    mut summary: impl FnMut(&ObjectId) -> Result<Option<HeadSummary>, E>,
) -> Result<Decision, E> {
    let decision = highest_whole(objects, partitions);
    let Decision::Run(run) = decision else {
        return Ok(decision);
    };
    for newer in objects.iter().filter(|object| object.run > run) {
        let decided = ObjectId {
            run,
            ..newer.clone()
        };
        let (ours, theirs) = (summary(&decided)?, summary(newer)?);
        if !matches!((ours, theirs), (Some(ours), Some(theirs)) if reproduces(&ours, &theirs)) {
            return Ok(Decision::Partial {
                run: newer.run,
                missing: Vec::new(),
            });
        }
    }
    Ok(decision)
}

/// Returns the highest whole run, by the names of the objects alone.
///
/// A run is whole if each operator with objects of that run has all `partitions`, and if the run
/// has every operator of each whole run below it. Without the second condition, a run that was
/// killed between the stages of two operators would count as whole. It would hide the complete run
/// below it, whose output may have reached the sink. The next run would then not have to reproduce
/// the complete run (`tests/protocol_model/`, `ForgetsOperators`).
#[must_use]
pub fn highest_whole(objects: &[ObjectId], partitions: u32) -> Decision {
    let mut runs: BTreeMap<RunNumber, PartitionsByOperator<'_>> = BTreeMap::new();
    for object in objects {
        runs.entry(object.run)
            .or_default()
            .entry(&object.operator)
            .or_default()
            .insert(object.partition);
    }
    let mut whole: Option<(RunNumber, &PartitionsByOperator<'_>)> = None;
    let mut partial = None;
    for (run, operators) in &runs {
        let missing = missing(operators, partitions);
        let left_out = whole.is_some_and(|(_, below)| {
            below
                .keys()
                .any(|operator| !operators.contains_key(operator))
        });
        if missing.is_empty() && !left_out {
            whole = Some((*run, operators));
        } else {
            partial = Some((*run, missing));
        }
    }
    match (whole, partial) {
        (Some((run, _)), _) => Decision::Run(run),
        (None, Some((run, missing))) => Decision::Partial { run, missing },
        (None, None) => Decision::Nothing,
    }
}

/// The partitions that a run has, by operator.
type PartitionsByOperator<'a> = BTreeMap<&'a OperatorName, BTreeSet<PartitionId>>;

fn missing(
    operators: &PartitionsByOperator<'_>,
    partitions: u32,
) -> Vec<(OperatorName, PartitionId)> {
    let mut missing = Vec::new();
    for (operator, found) in operators {
        let all = (0..i32::try_from(partitions).unwrap_or(i32::MAX)).map(PartitionId);
        missing.extend(
            all.filter(|partition| !found.contains(partition))
                .map(|partition| ((*operator).clone(), partition)),
        );
    }
    missing
}

/// Returns the whole run below `mine`, which `mine` must reproduce: its output may have reached a
/// sink.
#[must_use]
pub fn older_whole(objects: &[ObjectId], partitions: u32, mine: RunNumber) -> Option<RunNumber> {
    let older: Vec<ObjectId> = objects
        .iter()
        .filter(|object| object.run < mine)
        .cloned()
        .collect();
    highest_whole(&older, partitions).whole_run()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Digest;

    fn name(text: &str) -> OperatorName {
        OperatorName::new(text).expect("a name")
    }

    fn objects(list: &[(&str, i32, u64)]) -> Vec<ObjectId> {
        let one = |&(operator, partition, run): &(&str, i32, u64)| ObjectId {
            operator: name(operator),
            partition: PartitionId(partition),
            run: RunNumber(run),
        };
        list.iter().map(one).collect()
    }

    #[test]
    fn the_highest_whole_run_decides() {
        let both = objects(&[("a", 0, 1), ("a", 1, 1), ("a", 0, 2), ("a", 1, 2)]);
        assert_eq!(highest_whole(&both, 2), Decision::Run(RunNumber(2)));
        let newer_is_partial = objects(&[("a", 0, 1), ("a", 1, 1), ("a", 0, 2)]);
        assert_eq!(
            highest_whole(&newer_is_partial, 2),
            Decision::Run(RunNumber(1))
        );
    }

    #[test]
    fn a_newer_object_must_reproduce_the_whole_run() {
        let list = objects(&[("a", 0, 1), ("a", 1, 1), ("a", 0, 2)]);
        let decide = |newer: &[u8]| {
            decide(&list, 2, |object| {
                let content = if object.run == RunNumber(2) {
                    newer
                } else {
                    b"first"
                };
                Ok::<_, ()>(Some(HeadSummary {
                    base: Digest::ZERO,
                    digest: Digest::of(content),
                    input: Digest::ZERO,
                    input_rows: 1,
                    offsets: Digest::ZERO,
                }))
            })
        };
        assert_eq!(decide(b"first"), Ok(Decision::Run(RunNumber(1))));
        let contradicted = Decision::Partial {
            run: RunNumber(2),
            missing: Vec::new(),
        };
        assert_eq!(decide(b"other"), Ok(contradicted));
    }

    #[test]
    fn a_run_decides_for_all_operators_or_for_none() {
        let second_operator_lacks_one = objects(&[("a", 0, 1), ("a", 1, 1), ("b", 0, 1)]);
        let missing = vec![(name("b"), PartitionId(1))];
        assert_eq!(
            highest_whole(&second_operator_lacks_one, 2),
            Decision::Partial {
                run: RunNumber(1),
                missing
            }
        );
    }

    #[test]
    fn a_run_without_an_operator_of_a_whole_run_below_is_not_whole() {
        let killed_between_stages = objects(&[("a", 0, 1), ("b", 0, 1), ("a", 0, 2)]);
        assert_eq!(
            highest_whole(&killed_between_stages, 1),
            Decision::Run(RunNumber(1))
        );
        assert_eq!(
            older_whole(&killed_between_stages, 1, RunNumber(3)),
            Some(RunNumber(1))
        );
    }

    #[test]
    fn an_operator_of_a_partial_run_below_may_be_missing() {
        let removed = objects(&[
            ("a", 0, 1),
            ("a", 1, 1),
            ("b", 0, 1),
            ("a", 0, 2),
            ("a", 1, 2),
        ]);
        assert_eq!(highest_whole(&removed, 2), Decision::Run(RunNumber(2)));
        let added = objects(&[("a", 0, 1), ("a", 0, 2), ("b", 0, 2)]);
        assert_eq!(highest_whole(&added, 1), Decision::Run(RunNumber(2)));
    }

    #[test]
    fn partial_names_what_the_highest_run_lacks() {
        let partial = objects(&[("a", 0, 1), ("a", 2, 4)]);
        let missing = vec![(name("a"), PartitionId(0)), (name("a"), PartitionId(1))];
        assert_eq!(
            highest_whole(&partial, 3),
            Decision::Partial {
                run: RunNumber(4),
                missing
            }
        );
        assert_eq!(highest_whole(&[], 3), Decision::Nothing);
    }

    #[test]
    fn only_a_whole_run_below_must_be_reproduced() {
        let list = objects(&[
            ("a", 0, 1),
            ("a", 1, 1),
            ("a", 0, 2),
            ("a", 0, 3),
            ("a", 1, 3),
        ]);
        assert_eq!(older_whole(&list, 2, RunNumber(1)), None);
        assert_eq!(older_whole(&list, 2, RunNumber(3)), Some(RunNumber(1)));
        assert_eq!(older_whole(&list, 2, RunNumber(4)), Some(RunNumber(3)));
    }
}
