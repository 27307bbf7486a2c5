//! Whether a session stages its object: compares the object with the first one of its run, with
//! that of an older run, and with the epoch's decision.

use holdfast_core::ProcessingGuarantee;

use super::epoch_decision::PartitionDecision;
use crate::protocol::digest::Digest;

/// The parts of an object that are compared between sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadSummary {
    /// The chain before the epoch, which identifies the state that the session started from.
    pub base: Digest,
    /// The digest of the epoch's records, stream times, idle times, output and far-future rows.
    pub digest: Digest,
    /// The digest of the input, independent of its order.
    pub input: Digest,
    /// How many rows the input has.
    pub input_rows: u64,
    /// The digest of Spark's offsets of the epoch, as the session read them.
    pub offsets: Digest,
}

/// The step of a session that compares its object with the first one of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageStep {
    /// No other session was first: the session's own object counts.
    Write,
    /// Another session of the run was first, and its object counts. Under exactly-once both have
    /// the same content.
    Adopt,
    /// Another session of the run was first, and read other offsets of the epoch.
    OffsetsChanged,
    /// Another session of the run was first, with other content.
    Mismatch {
        /// Whether both started from the same state.
        base_same: bool,
        /// Whether both had the same input. If the state was the same, this shows the cause: with
        /// the same input, the operator is not repeatable; otherwise the input is not.
        input_same: bool,
    },
}

/// Compares a session's object with the first one of its run.
///
/// The first session of a run to stage wins. A later session adopts the first one's object if both
/// read the same offsets and started from the same state; under exactly-once only if the results
/// are equal, too.
#[must_use]
pub fn stage_step(
    existing: Option<&HeadSummary>,
    mine: &HeadSummary,
    guarantee: ProcessingGuarantee,
) -> StageStep {
    match existing {
        None => StageStep::Write,
        Some(first) if first.offsets != mine.offsets => StageStep::OffsetsChanged,
        Some(first) if counts_for(first, mine, guarantee) => StageStep::Adopt,
        Some(first) => StageStep::Mismatch {
            base_same: first.base == mine.base,
            input_same: first.input == mine.input && first.input_rows == mine.input_rows,
        },
    }
}

/// Returns whether a session has the same changes and the same output, from the same state.
///
/// The input is not compared: rows that differ without an effect, for example only in an unused
/// column, do no harm.
#[must_use]
pub fn reproduces(older: &HeadSummary, mine: &HeadSummary) -> bool {
    older.base == mine.base && older.digest == mine.digest
}

/// What a session stages if the sink may have the output of an earlier evaluation: an older run is
/// whole, or the epoch was decided before Spark lost its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayStep {
    /// Its own object.
    Own,
    /// A copy of the earlier object. So the epoch's result does not depend on which of the two runs
    /// decides.
    Copy,
    /// Nothing: Spark's offsets of the epoch are not those of the earlier evaluation.
    OffsetsChanged,
    /// Nothing: the results differ.
    NotReproduced,
}

/// Compares a session's object with that of an older whole run.
///
/// Under exactly-once the older run must be reproduced from the same offsets. Its records may
/// already be in a host's state, because its driver may have committed the epoch meanwhile.
/// At-least-once copies the older object if only the results differ. Otherwise the session's own
/// object counts: with other offsets, for example, the older evaluation is of other rows.
#[must_use]
pub fn replay_step(
    older: &HeadSummary,
    mine: &HeadSummary,
    guarantee: ProcessingGuarantee,
) -> ReplayStep {
    let same_offsets = older.offsets == mine.offsets;
    match guarantee {
        _ if same_offsets && reproduces(older, mine) => ReplayStep::Own,
        ProcessingGuarantee::ExactlyOnce if same_offsets => ReplayStep::NotReproduced,
        ProcessingGuarantee::ExactlyOnce => ReplayStep::OffsetsChanged,
        ProcessingGuarantee::AtLeastOnce if same_offsets && older.base == mine.base => {
            ReplayStep::Copy
        }
        ProcessingGuarantee::AtLeastOnce => ReplayStep::Own,
    }
}

/// Compares a session's object with the recorded decision of its epoch, whose commit Spark has
/// lost.
///
/// The decision stands. `decided` is its part for the session's operator and partition; none if the
/// decision does not name them. `offsets`: the offsets that the decision names.
#[must_use]
pub fn decided_step(
    decided: Option<&PartitionDecision>,
    offsets: Digest,
    mine: &HeadSummary,
    guarantee: ProcessingGuarantee,
) -> ReplayStep {
    if offsets != mine.offsets {
        return ReplayStep::OffsetsChanged;
    }
    match decided {
        Some(decided) if decided.base != mine.base => ReplayStep::NotReproduced,
        Some(decided) if decided.digest == mine.digest => ReplayStep::Own,
        Some(_) if guarantee == ProcessingGuarantee::AtLeastOnce => ReplayStep::Copy,
        _ => ReplayStep::NotReproduced,
    }
}

/// Whether an earlier session's object counts for the session of `mine`.
///
/// Under exactly-once their results must be equal. Under at-least-once only the states that they
/// started from must be equal, because a replay of an epoch may have other results.
fn counts_for(earlier: &HeadSummary, mine: &HeadSummary, guarantee: ProcessingGuarantee) -> bool {
    match guarantee {
        ProcessingGuarantee::ExactlyOnce => reproduces(earlier, mine),
        ProcessingGuarantee::AtLeastOnce => earlier.base == mine.base,
    }
}

/// Returns whether a session may put its object, or acknowledge it.
///
/// The caller checks this before the put and after it. Once Spark has committed an epoch, the
/// objects that exist decide it. An object that is put later must not change the result, because
/// another driver may have committed the epoch without running the operators. So the object is put
/// only if it equals the decided result. `decided`: the epoch's decision, made without the object;
/// it is needed only if Spark has committed the epoch.
#[must_use]
pub fn may_stage(committed: bool, decided: Option<&PartitionDecision>, staged: Digest) -> bool {
    !committed || decided.is_some_and(|decided| decided.digest == staged)
}

#[cfg(test)]
mod tests {
    use ProcessingGuarantee::{AtLeastOnce, ExactlyOnce};

    use super::*;

    fn head(base: &str, digest: &str, input: &str) -> HeadSummary {
        let digest_of = |text: &str| Digest::of(text.as_bytes());
        HeadSummary {
            base: digest_of(base),
            digest: digest_of(digest),
            input: digest_of(input),
            input_rows: 5,
            offsets: Digest::of(b"offsets"),
        }
    }

    fn step(first: &HeadSummary, guarantee: ProcessingGuarantee) -> StageStep {
        stage_step(Some(first), &head("b", "d", "i"), guarantee)
    }

    #[test]
    fn an_equal_object_is_adopted_and_a_different_one_is_an_error() {
        assert_eq!(
            stage_step(None, &head("b", "d", "i"), ExactlyOnce),
            StageStep::Write
        );
        assert_eq!(step(&head("b", "d", "i"), ExactlyOnce), StageStep::Adopt);
        assert_eq!(
            step(&head("b", "d", "other"), ExactlyOnce),
            StageStep::Adopt
        );
        let mismatch = |base_same, input_same| StageStep::Mismatch {
            base_same,
            input_same,
        };
        assert_eq!(
            step(&head("b", "other", "i"), ExactlyOnce),
            mismatch(true, true),
            "the processor"
        );
        assert_eq!(
            step(&head("b", "other", "other"), ExactlyOnce),
            mismatch(true, false),
            "the input"
        );
        assert_eq!(
            step(&head("other", "d", "i"), ExactlyOnce),
            mismatch(false, true),
            "the base"
        );
    }

    #[test]
    fn under_at_least_once_another_result_from_the_same_state_is_adopted() {
        assert_eq!(
            stage_step(None, &head("b", "d", "i"), AtLeastOnce),
            StageStep::Write
        );
        assert_eq!(
            step(&head("b", "other", "other"), AtLeastOnce),
            StageStep::Adopt
        );
        assert_eq!(
            step(&head("other", "d", "i"), AtLeastOnce),
            StageStep::Mismatch {
                base_same: false,
                input_same: true
            }
        );
    }

    #[test]
    fn a_second_attempt_that_read_other_offsets_is_an_error() {
        let first = HeadSummary {
            offsets: Digest::of(b"other"),
            ..head("b", "d", "i")
        };
        for guarantee in [ExactlyOnce, AtLeastOnce] {
            assert_eq!(step(&first, guarantee), StageStep::OffsetsChanged);
        }
    }

    #[test]
    fn an_older_run_is_reproduced_or_copied() {
        let replay =
            |older: &HeadSummary, guarantee| replay_step(older, &head("b", "d", "i"), guarantee);
        for guarantee in [ExactlyOnce, AtLeastOnce] {
            assert_eq!(replay(&head("b", "d", "other"), guarantee), ReplayStep::Own);
        }
        assert_eq!(
            replay(&head("other", "d", "i"), ExactlyOnce),
            ReplayStep::NotReproduced
        );
        assert_eq!(
            replay(&head("b", "other", "i"), ExactlyOnce),
            ReplayStep::NotReproduced
        );
        assert_eq!(
            replay(&head("b", "other", "i"), AtLeastOnce),
            ReplayStep::Copy
        );
        assert_eq!(
            replay(&head("other", "d", "i"), AtLeastOnce),
            ReplayStep::Own
        );
    }

    #[test]
    fn an_older_run_with_other_offsets_is_an_error_or_does_not_count() {
        let older = HeadSummary {
            offsets: Digest::of(b"other"),
            ..head("b", "d", "i")
        };
        let mine = head("b", "d", "i");
        assert_eq!(
            replay_step(&older, &mine, ExactlyOnce),
            ReplayStep::OffsetsChanged
        );
        assert_eq!(replay_step(&older, &mine, AtLeastOnce), ReplayStep::Own);
    }

    #[test]
    fn after_sparks_commit_only_the_decided_result_is_staged() {
        let decided = PartitionDecision {
            digest: Digest::of(b"d"),
            ..PartitionDecision::default()
        };
        let (mine, other) = (Digest::of(b"d"), Digest::of(b"other"));
        assert!(may_stage(false, None, mine));
        assert!(may_stage(true, Some(&decided), mine));
        assert!(!may_stage(true, Some(&decided), other));
        assert!(!may_stage(true, None, mine));
    }

    #[test]
    fn a_decided_epoch_must_be_reproduced_or_copied() {
        let mine = head("b", "d", "i");
        let decided = |base: &str, digest: &str| PartitionDecision {
            base: Digest::of(base.as_bytes()),
            digest: Digest::of(digest.as_bytes()),
            ..PartitionDecision::default()
        };
        let step = |decided: Option<&PartitionDecision>, guarantee| {
            decided_step(decided, mine.offsets, &mine, guarantee)
        };
        for guarantee in [ExactlyOnce, AtLeastOnce] {
            assert_eq!(step(Some(&decided("b", "d")), guarantee), ReplayStep::Own);
            assert_eq!(
                step(Some(&decided("other", "d")), guarantee),
                ReplayStep::NotReproduced
            );
            assert_eq!(step(None, guarantee), ReplayStep::NotReproduced);
            let other_offsets = Digest::of(b"other");
            assert_eq!(
                decided_step(Some(&decided("b", "d")), other_offsets, &mine, guarantee),
                ReplayStep::OffsetsChanged
            );
        }
        let other = decided("b", "other");
        assert_eq!(step(Some(&other), ExactlyOnce), ReplayStep::NotReproduced);
        assert_eq!(step(Some(&other), AtLeastOnce), ReplayStep::Copy);
    }
}
