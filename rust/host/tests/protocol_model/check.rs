//! The invariants: what is applied is what the sink was given. Under at-least-once: all is applied,
//! and stays.

use holdfast_core::ProcessingGuarantee::AtLeastOnce;

use crate::model::Model;
use crate::state::{Content, SLOTS, State};

impl Model {
    /// What a host applies in this state.
    pub(crate) fn applied(&mut self, state: &State) -> Option<[Content; SLOTS]> {
        let run = if state.committed {
            self.decided(state)
        } else {
            None
        };
        run.map(|run| state.objects[run])
    }

    /// Whether no job gave all of an operator to the sink, and the deciding run has none of it:
    /// then the operator's next session fails.
    fn left_out(&self, state: &State, run: usize, slot: usize) -> bool {
        let first = slot / self.world.partitions * self.world.partitions;
        let none = state.objects[run][first..first + self.world.partitions]
            .iter()
            .all(|content| *content == 0);
        none && !state.whole
    }

    /// Checks the invariants of a state.
    pub(crate) fn check(&mut self, state: &State) -> Result<(), String> {
        if !state.committed {
            return Ok(());
        }
        let Some(run) = self.decided(state) else {
            return if state.whole {
                Err("a committed output is refused".into())
            } else {
                Ok(())
            };
        };
        for slot in 0..self.slots() {
            let content = state.objects[run][slot];
            if content == 0 && self.left_out(state, run, slot) {
                continue;
            }
            if content == 0 {
                return Err(format!("slot {slot} is not applied"));
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
}

/// Checks that what a host may have applied is not decided differently later.
///
/// It may be refused later; `check` says when.
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
