//! Claims of run numbers, and the fence: only the newest run may continue.

use serde::{Deserialize, Serialize};

use super::number::{Epoch, RunNumber};

/// A run's claim, put if absent under its number.
///
/// Numbers start at 1 and leave no gap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The run's number; not in the content, since it is the object's name.
    #[serde(skip, default = "unnumbered")]
    pub number: RunNumber,
    /// Spark's run id: a new one at each start of the query. A command has its own
    /// ([`Claim::run_id_of`]).
    pub run_id: String,
    /// The epoch that the run was in when it claimed; of a command, the epoch that it takes back or
    /// drops.
    pub first_epoch: Epoch,
    /// Spark's query id: the same at each start of the query.
    pub query_id: String,
}

impl Claim {
    /// Returns the run id of a command, which claims a run to fence a query that is still running.
    ///
    /// `random` makes it unique.
    #[must_use]
    pub fn run_id_of(command: &str, random: u64) -> String {
        format!("`{command}` {random:016x}")
    }

    /// Returns whether a command claimed the run, not a start of the query.
    #[must_use]
    pub fn is_by_hand(&self) -> bool {
        self.run_id.starts_with('`')
    }
}

fn unnumbered() -> RunNumber {
    RunNumber(0)
}

/// The next step of a run that claims its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimStep {
    /// The run has this number.
    Known(RunNumber),
    /// Put a claim of this number if it is absent, then read the claims again in either case.
    Put(RunNumber),
    /// The run is too late: Spark has already committed the run's first epoch.
    Refused {
        /// The run's first epoch.
        epoch: Epoch,
    },
}

/// Returns the next step of a run that claims its number.
///
/// `committed`: Spark's commit log holds `first_epoch`.
#[must_use]
pub fn next_claim(
    claims: &[Claim],
    run_id: &str,
    first_epoch: Epoch,
    committed: bool,
) -> ClaimStep {
    if let Some(claim) = claims.iter().find(|claim| claim.run_id == run_id) {
        return ClaimStep::Known(claim.number);
    }
    if committed {
        return ClaimStep::Refused { epoch: first_epoch };
    }
    ClaimStep::Put(newest(claims).map_or(RunNumber::FIRST, |claim| claim.number.next()))
}

/// The refusal of a run because a newer one has claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fenced {
    /// The run that must stop.
    pub mine: RunNumber,
    /// The newest one.
    pub newer: Claim,
}

/// Checks that a run is still the newest.
///
/// The claims must be read *after* each put or adoption. The newer run lists objects only after its
/// claim. So either a task of the older run fails, or the newer run finds the older run whole.
///
/// # Errors
/// [`Fenced`] names the newest run.
pub fn fence(mine: RunNumber, claims: &[Claim]) -> Result<(), Fenced> {
    match newest(claims) {
        Some(newer) if newer.number > mine => Err(Fenced {
            mine,
            newer: newer.clone(),
        }),
        _ => Ok(()),
    }
}

fn newest(claims: &[Claim]) -> Option<&Claim> {
    claims.iter().max_by_key(|claim| claim.number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(number: u64, run_id: &str) -> Claim {
        Claim {
            number: RunNumber(number),
            run_id: run_id.into(),
            first_epoch: Epoch(3),
            query_id: "q".into(),
        }
    }

    #[test]
    fn a_run_claims_once_and_after_the_newest() {
        assert_eq!(
            next_claim(&[], "a", Epoch(3), false),
            ClaimStep::Put(RunNumber(1))
        );
        let claims = [claim(2, "b"), claim(1, "a")];
        assert_eq!(
            next_claim(&claims, "a", Epoch(3), false),
            ClaimStep::Known(RunNumber(1))
        );
        assert_eq!(
            next_claim(&claims, "c", Epoch(3), false),
            ClaimStep::Put(RunNumber(3))
        );
    }

    #[test]
    fn a_run_that_claims_after_the_commit_is_refused() {
        assert_eq!(
            next_claim(&[claim(1, "a")], "b", Epoch(3), true),
            ClaimStep::Refused { epoch: Epoch(3) }
        );
        assert_eq!(
            next_claim(&[claim(1, "a")], "a", Epoch(3), true),
            ClaimStep::Known(RunNumber(1))
        );
    }

    #[test]
    fn an_older_run_is_fenced_by_the_newest() {
        let claims = [claim(1, "a"), claim(3, "c"), claim(2, "b")];
        assert_eq!(fence(RunNumber(3), &claims), Ok(()));
        let fenced = fence(RunNumber(1), &claims).expect_err("not the newest");
        assert_eq!(
            (fenced.mine, fenced.newer.number),
            (RunNumber(1), RunNumber(3))
        );
    }
}
