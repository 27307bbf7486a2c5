//! Every interleaving of the epoch protocol, for a few runs, partitions, operators, attempts and
//! crashes.
//!
//! The model walks through all states that one epoch can reach (depth first, each state once) and
//! asks the real functions of [`holdfast_host::protocol`] at each step. What is modelled:
//!
//! - Two or three drivers of one query, each of which may stall anywhere and wake later, or never
//!   (a crash).
//! - A driver claims its run (read, then put if absent), runs its jobs, hands their output to the
//!   sink, then writes Spark's commit log. A job evaluates all partitions or only the first
//!   (`take`); `foreachBatch` may do several.
//! - An attempt at a task lists, puts its object, reads the claims again and is acknowledged: three
//!   steps that anything may come between. One that fails (host crash) is one that goes no further;
//!   a twin, beside it or after it, takes its place. Its result is 1, or freely 1 or 2 where
//!   results are not repeatable.
//! - The sink is a file sink, which skips an epoch that it has (no task runs at all), or one that
//!   overwrites.
//! - After Spark's commit hosts apply what the protocol decides, at any time, while stale tasks
//!   still write.
//!
//! What must hold in every state (`check`): what is applied is exactly what the sink was given, for
//! all partitions; a whole output that Spark committed is never refused; what was applied once
//! stays the decision; and with repeatable results and whole evaluations nothing is ever refused
//! but for being fenced. Under at-least-once the sink may have been given more than what is
//! applied; all else must hold, and nothing is refused whatever the results are.
//!
//! Where only a `take` reached the sink and the deciding run has nothing of an operator, that one
//! is refused at its next session.
//!
//! Two things are beyond the protocol, and left out; both need a `take`, results that are not
//! repeatable and stale drivers that still write after Spark's commit. A `take` by a run that a
//! newer one has superseded: nobody can tell its few rows from those of a run that crashed, so the
//! newer run decides. And a `take` beside *two* stale drivers, both of which become whole after
//! they were fenced, one after the commit: the decision goes from one to the other. Only a record
//! of the first decision, put if absent, could prevent that.
//!
//! `each_rule_is_needed` takes one rule away at a time (does not read the runs again after a put,
//! lists before it claims, does not reproduce an older whole run, lets the lowest whole run decide,
//! ignores doubts, adopts without comparing, counts a run as whole that an operator is missing
//! from) and sees the model find the damage.

mod check;
mod model;
mod state;

use check::stays;
use holdfast_core::ProcessingGuarantee::{self, AtLeastOnce, ExactlyOnce};
use model::Model;
use state::{Broken, State, World};
use std::collections::HashSet;

/// Visits every state; the number of them, or what is wrong and in which state. A state is
/// remembered by 64 bits of hash: of ten million states, two are taken for one with a chance of one
/// in 400,000.
fn explore(world: World) -> Result<usize, String> {
    let mut model = Model::new(world);
    let mut seen = HashSet::from([State::default().fingerprint(&model.orders)]);
    let mut open = vec![State::default()];
    while let Some(state) = open.pop() {
        let about = |wrong: String| format!("{wrong}: {state:?}");
        model.check(&state).map_err(about)?;
        let applied = model.applied(&state);
        for next in model.next(&state).map_err(about)? {
            stays(&applied, &model.applied(&next)).map_err(about)?;
            if seen.insert(next.fingerprint(&model.orders)) {
                open.push(next);
            }
        }
        assert!(
            seen.len() < 10_000_000,
            "{world:?} is too large a world for a test"
        );
    }
    Ok(seen.len())
}

const WHOLE: &[&[bool]] = &[&[true]];
const WHOLE_OR_TAKE: &[&[bool]] = &[&[true], &[false]];
const TWICE: &[&[bool]] = &[&[true, true], &[false, true]];
const TWICE_WHOLE: &[&[bool]] = &[&[true, true]];

fn worlds(guarantee: ProcessingGuarantee, broken: Broken) -> Vec<World> {
    let one = World {
        drivers: 2,
        operators: 1,
        partitions: 2,
        twins: 1,
        repeatable: false,
        guarantee,
        file_sink: false,
        plans: WHOLE,
        broken,
    };
    let two = World {
        plans: WHOLE_OR_TAKE,
        ..one
    };
    vec![
        two,
        World {
            plans: TWICE,
            ..two
        },
        World {
            file_sink: true,
            plans: WHOLE,
            ..two
        },
        World { twins: 2, ..two },
        World {
            repeatable: true,
            twins: 2,
            plans: TWICE_WHOLE,
            ..two
        },
        World {
            operators: 2,
            partitions: 1,
            ..two
        },
        World {
            operators: 2,
            plans: WHOLE,
            ..two
        },
        World {
            operators: 2,
            repeatable: true,
            plans: TWICE_WHOLE,
            ..two
        },
        World {
            drivers: 3,
            repeatable: true,
            twins: 2,
            plans: WHOLE,
            ..two
        },
        World {
            drivers: 3,
            file_sink: true,
            plans: WHOLE,
            ..two
        },
        World {
            drivers: 3,
            plans: WHOLE,
            ..two
        },
        World {
            drivers: 3,
            repeatable: true,
            ..two
        },
        World {
            drivers: 3,
            operators: 2,
            partitions: 1,
            plans: WHOLE,
            ..two
        },
    ]
}

#[test]
fn what_is_applied_is_what_the_sink_was_given_in_every_interleaving() {
    all_hold(ExactlyOnce);
}

#[test]
fn under_at_least_once_all_is_applied_and_stays_in_every_interleaving() {
    all_hold(AtLeastOnce);
}

fn all_hold(guarantee: ProcessingGuarantee) {
    for world in worlds(guarantee, Broken::Nothing) {
        let start = std::time::Instant::now();
        let states = explore(world).unwrap_or_else(|wrong| panic!("{world:?}\n{wrong}"));
        assert!(
            states > 500,
            "{world:?}: only {states} states, so the model does not move"
        );
        println!(
            "{states:>9} states in {:>6} ms: {world:?}",
            start.elapsed().as_millis()
        );
    }
}

#[test]
fn each_rule_is_needed() {
    let rules = [
        Broken::NoReadAfterPut,
        Broken::ListBeforeClaim,
        Broken::NoReproduction,
        Broken::LowestWholeDecides,
        Broken::NoNewerObjects,
        Broken::AdoptUnseen,
        Broken::ForgetsOperators,
    ];
    all_are_needed(ExactlyOnce, &rules);
}

#[test]
fn each_rule_is_needed_under_at_least_once() {
    let rules = [
        Broken::NoReadAfterPut,
        Broken::ListBeforeClaim,
        Broken::NoReproduction,
        Broken::LowestWholeDecides,
        Broken::ForgetsOperators,
    ];
    all_are_needed(AtLeastOnce, &rules);
}

fn all_are_needed(guarantee: ProcessingGuarantee, rules: &[Broken]) {
    for &broken in rules {
        let found = worlds(guarantee, broken)
            .into_iter()
            .find_map(|world| explore(world).err());
        let wrong = found
            .unwrap_or_else(|| panic!("{broken:?} does no harm, so the model does not see it"));
        println!(
            "{broken:?}: {}",
            wrong.split(": State").next().unwrap_or_default()
        );
    }
}
