//! Several epochs of a query, over all interleavings: decisions, rewinds, lost commits, epochs in
//! which no operator ran, and two drivers that both write Spark's offsets.
//!
//! `tests/protocol_model/` explores one epoch with many tasks. This model has one operator with one
//! partition, and calls the same functions of [`holdfast_host::protocol`]. `later_operator/` has a
//! smaller model of an operator that begins in a later epoch. This model contains:
//!
//! - Two drivers. Each plans an epoch (it reads the offsets file, or writes one; both may find it
//!   absent and write), claims a run, opens a session, stages, gives its output to the sink and
//!   commits. It may end anywhere. It may also commit without any session (`foreachBatch` returns
//!   early).
//! - A host that decides a committed epoch in two steps: it lists objects, and records its decision
//!   later.
//! - At most one of these: `holdfast rewind`; a driver that writes its offsets over those of the
//!   other one; a loss of power that takes Spark's last commit; the loss of a log folder.
//!
//! Left out: a checkpoint that is restored from a backup while a host of the old query still runs.
//! In this model each session searches its epoch for a decision and for an older run. The rule that
//! it does so only if its run's first listing had the epoch is in `tests/protocol_model/`.
//!
//! These invariants hold whenever a session opens (`check_open`):
//!
//! - The state holds exactly what the sink was given in each committed epoch.
//! - What a state once held for an epoch stays until a rewind.
//! - The state was computed from the offsets that Spark's log holds.
//! - An epoch whose objects were lost is not skipped.
//! - An object decides no epoch if Spark had committed the epoch before the object's session read
//!   the commit log.
//!
//! `each_rule_is_needed` switches off one rule at a time and checks that the model finds damage.

mod decisions;
mod later_operator;
mod state;
mod steps;

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;

use state::{Rule, State};
use steps::Model;

/// Visits every state that follows from the first one; returns their number, or what is wrong in
/// which state.
fn explore<S: Clone + Debug + Default + Eq + Hash>(
    next: impl Fn(&S) -> Result<Vec<S>, String>,
) -> Result<usize, String> {
    let mut seen = HashSet::from([S::default()]);
    let mut open = vec![S::default()];
    while let Some(state) = open.pop() {
        for next in next(&state).map_err(|wrong| format!("{wrong}: {state:?}"))? {
            if seen.insert(next.clone()) {
                open.push(next);
            }
        }
        assert!(seen.len() < 3_000_000, "the model is too large for a test");
    }
    Ok(seen.len())
}

fn explore_without(without: Option<Rule>) -> Result<usize, String> {
    let model = Model { without };
    explore(|state: &State| {
        let next = model.next(state)?.into_iter();
        Ok(next.map(State::normalized).collect())
    })
}

#[test]
fn state_and_sink_agree_in_every_interleaving() {
    let states = explore_without(None).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(
        states > 10_000,
        "only {states} states: the model does not move"
    );
    println!("{states} states");
}

#[test]
fn each_rule_is_needed() {
    for rule in Rule::ALL {
        let wrong = explore_without(Some(rule)).err();
        let wrong = wrong.unwrap_or_else(|| panic!("{rule:?} prevents nothing that the model has"));
        println!(
            "without {rule:?}: {}",
            wrong.split(": State").next().unwrap_or_default()
        );
    }
}
