//! The invariants of a committed epoch: each slot (a partition of an operator) is applied and does
//! not change. Under exactly-once the sink was given nothing but what is applied.

use holdfast_core::ProcessingGuarantee::AtLeastOnce;

use crate::model::Model;
use crate::state::{Content, SLOTS, Session, State, has_rows};

impl Model {
    /// Whether the decision has nothing of an operator, and no job gave the operator's whole output
    /// to the sink.
    fn left_out(&self, state: &State, decided: &[Content; SLOTS], slot: usize) -> bool {
        let first = slot / self.world.partitions * self.world.partitions;
        let none = decided[first..first + self.world.partitions]
            .iter()
            .all(|content| *content == 0);
        none && (!state.whole || (self.world.outlives && first > 0))
    }

    /// Checks the invariants of a state.
    pub(crate) fn check(&mut self, state: &State) -> Result<(), String> {
        if !state.committed {
            return Ok(());
        }
        self.check_acknowledged(state)?;
        // If no host has recorded a decision yet, the one that a host would make now must be right.
        let candidate = match state.recorded {
            Some(recorded) => Some(recorded),
            None => {
                let run = self.decided(state);
                if run.is_some_and(|run| state.late.iter().any(|late| late & 1 << run != 0)) {
                    return Err("an object that was put after Spark's commit decides".into());
                }
                run.map(|run| state.objects[run])
            }
        };
        let Some(decided) = candidate else {
            // A job in a thread that is not joined may leave the epoch incomplete. That is an error
            // for the user.
            return if state.whole && !self.world.outlives {
                Err("a committed output is refused".into())
            } else {
                Ok(())
            };
        };
        for slot in 0..self.slots() {
            let content = decided[slot];
            if content == 0 && self.left_out(state, &decided, slot) {
                continue;
            }
            if content == 0 {
                return Err(format!("slot {slot} is not applied"));
            }
            if self.world.publishes
                && state.published[slot] != has_rows(content)
                && !is_unchecked(state, slot)
            {
                return Err(format!(
                    "slot {slot}: {content} is decided, and its far-future rows are not published"
                ));
            }
            if self.world.guarantee == AtLeastOnce {
                // The sink may have other results, too.
                continue;
            }
            let in_part = if state.committer == state.claimed {
                state.given_in_part[slot]
            } else {
                0
            };
            let given = state.given[slot] | in_part;
            if given & !content != 0 {
                return Err(format!(
                    "slot {slot}: the sink was given {given:#b}, applied is {content:#b}"
                ));
            }
        }
        Ok(())
    }

    /// In worlds with `outlives`, checks that the recorded decision has each acknowledged task of
    /// the committing driver.
    fn check_acknowledged(&self, state: &State) -> Result<(), String> {
        let (Some(recorded), true) = (state.recorded, self.world.outlives) else {
            return Ok(());
        };
        let committer = state
            .drivers
            .iter()
            .find(|driver| driver.run == state.committer);
        for (slot, sessions) in committer
            .iter()
            .flat_map(|driver| driver.sessions.iter().enumerate())
        {
            let acknowledged = sessions.iter().find_map(|session| match session {
                Session::Acknowledged(content) => Some(*content),
                _ => None,
            });
            if acknowledged.is_some_and(|content| content != recorded[slot]) {
                return Err(format!(
                    "slot {slot} was acknowledged and is not in the decision"
                ));
            }
        }
        Ok(())
    }
}

/// Whether an attempt may have published rows of an older object, and must still replace them.
fn is_unchecked(state: &State, slot: usize) -> bool {
    state.drivers.iter().any(|driver| {
        driver.sessions[slot].iter().any(|session| match session {
            Session::Published(..) => true,
            Session::Publishing(_, of) => *of != driver.run,
            _ => false,
        })
    })
}

/// Checks that what a host may have applied is not decided differently later.
pub(crate) fn stays(
    before: &Option<[Content; SLOTS]>,
    after: &Option<[Content; SLOTS]>,
) -> Result<(), String> {
    let (Some(before), Some(after)) = (before, after) else {
        return Ok(());
    };
    let differs = before
        .iter()
        .zip(after)
        .position(|(before, after)| *before != 0 && before != after);
    differs.map_or(Ok(()), |slot| {
        Err(format!(
            "slot {slot}: {} was applied, {} is decided",
            before[slot], after[slot]
        ))
    })
}
