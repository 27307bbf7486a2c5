//! What a session does when another one has staged the same object.

use holdfast_core::ProcessingGuarantee;

use super::Digest;

/// What two sessions' objects are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadSummary {
    /// The chain before the epoch: the state that the session started from.
    pub base: Digest,
    /// Records, stream times and output of the epoch.
    pub digest: Digest,
    /// The input, whatever its order.
    pub input: Digest,
    /// How many rows the input had.
    pub input_rows: u64,
}

/// What comes of a session's object within its own run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageStep {
    /// Nothing is there: put it if absent, and look again if that fails.
    Write,
    /// Another session of the run was first: its object is ours too. Under exactly-once both have
    /// the same content.
    Adopt,
    /// Another session of the run was first, with other content.
    Mismatch {
        /// Both started from the same state.
        base_same: bool,
        /// Both had the same input, so the processor is not repeatable; else the input is not.
        input_same: bool,
    },
}

/// The first session of a run to stage wins; a later one adopts its object, under exactly-once only
/// an equal one.
#[must_use]
pub fn stage_step(
    existing: Option<&HeadSummary>,
    mine: &HeadSummary,
    guarantee: ProcessingGuarantee,
) -> StageStep {
    match existing {
        None => StageStep::Write,
        Some(first) if counts_for(first, mine, guarantee) => StageStep::Adopt,
        Some(first) => StageStep::Mismatch {
            base_same: first.base == mine.base,
            input_same: first.input == mine.input && first.input_rows == mine.input_rows,
        },
    }
}

/// Whether a session came to the same changes and the same output, from the same state. The input
/// is not compared: other rows with the same effect (a column that nobody reads) do no harm.
#[must_use]
pub fn reproduces(older: &HeadSummary, mine: &HeadSummary) -> bool {
    older.base == mine.base && older.digest == mine.digest
}

/// What a session stages where a run before its own is whole, so that the sink may have that run's
/// output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayStep {
    /// Its own object: it came to the same.
    Own,
    /// A copy of the older run's object: what is decided stays as it is, whichever of the two runs
    /// decides.
    Copy,
    /// Nothing: it came to something else, which only at-least-once accepts.
    NotReproduced,
}

/// An older whole run is reproduced, or, under at-least-once, kept: its records may be in the state
/// of some host already, since its driver may have committed the epoch meanwhile.
#[must_use]
pub fn replay_step(
    older: &HeadSummary,
    mine: &HeadSummary,
    guarantee: ProcessingGuarantee,
) -> ReplayStep {
    if reproduces(older, mine) {
        ReplayStep::Own
    } else if counts_for(older, mine, guarantee) {
        ReplayStep::Copy
    } else {
        ReplayStep::NotReproduced
    }
}

/// Whether an earlier session's object may stand for a later session's: under exactly-once if that
/// came to the same; under at-least-once whatever it came to, from the same state (a replay of an
/// epoch is accepted: `spark.md` section 3).
fn counts_for(earlier: &HeadSummary, mine: &HeadSummary, guarantee: ProcessingGuarantee) -> bool {
    match guarantee {
        ProcessingGuarantee::ExactlyOnce => reproduces(earlier, mine),
        ProcessingGuarantee::AtLeastOnce => earlier.base == mine.base,
    }
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
        }
    }

    fn step(first: &HeadSummary, guarantee: ProcessingGuarantee) -> StageStep {
        stage_step(Some(first), &head("b", "d", "i"), guarantee)
    }

    #[test]
    fn an_equal_object_is_adopted_and_another_is_not() {
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
    fn an_older_run_is_reproduced_or_kept_as_it_is() {
        let replay =
            |older: &HeadSummary, guarantee| replay_step(older, &head("b", "d", "i"), guarantee);
        for guarantee in [ExactlyOnce, AtLeastOnce] {
            assert_eq!(replay(&head("b", "d", "other"), guarantee), ReplayStep::Own);
            assert_eq!(
                replay(&head("other", "d", "i"), guarantee),
                ReplayStep::NotReproduced
            );
        }
        assert_eq!(
            replay(&head("b", "other", "i"), ExactlyOnce),
            ReplayStep::NotReproduced
        );
        assert_eq!(
            replay(&head("b", "other", "i"), AtLeastOnce),
            ReplayStep::Copy
        );
    }
}
