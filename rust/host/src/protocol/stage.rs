//! What a session does when another one has staged the same object.

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
    /// Another session of the run was first, with the same content: its object is ours too.
    Adopt,
    /// Another session of the run was first, with other content.
    Mismatch {
        /// Both started from the same state.
        base_same: bool,
        /// Both had the same input, so the processor is not repeatable; else the input is not.
        input_same: bool,
    },
}

/// The first session of a run to stage wins; a later one adopts an equal object.
#[must_use]
pub fn stage_step(existing: Option<&HeadSummary>, mine: &HeadSummary) -> StageStep {
    match existing {
        None => StageStep::Write,
        Some(first) if reproduces(first, mine) => StageStep::Adopt,
        Some(first) => StageStep::Mismatch {
            base_same: first.base == mine.base,
            input_same: first.input == mine.input && first.input_rows == mine.input_rows,
        },
    }
}

/// Whether a session came to the same changes and the same output, from the same state. The input is not compared:
/// other rows with the same effect (a column that nobody reads) do no harm.
#[must_use]
pub fn reproduces(older: &HeadSummary, mine: &HeadSummary) -> bool {
    older.base == mine.base && older.digest == mine.digest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(base: &str, digest: &str, input: &str) -> HeadSummary {
        let digest_of = |text: &str| Digest::of(text.as_bytes());
        HeadSummary { base: digest_of(base), digest: digest_of(digest), input: digest_of(input), input_rows: 5 }
    }

    #[test]
    fn an_equal_object_is_adopted_and_another_is_not() {
        let mine = head("b", "d", "i");
        assert_eq!(stage_step(None, &mine), StageStep::Write);
        assert_eq!(stage_step(Some(&mine), &mine), StageStep::Adopt);
        assert_eq!(stage_step(Some(&head("b", "d", "other")), &mine), StageStep::Adopt);
        let processor = StageStep::Mismatch { base_same: true, input_same: true };
        assert_eq!(stage_step(Some(&head("b", "other", "i")), &mine), processor);
        let input = StageStep::Mismatch { base_same: true, input_same: false };
        assert_eq!(stage_step(Some(&head("b", "other", "other")), &mine), input);
        let base = StageStep::Mismatch { base_same: false, input_same: true };
        assert_eq!(stage_step(Some(&head("other", "d", "i")), &mine), base);
    }
}
