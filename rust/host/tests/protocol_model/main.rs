//! Every interleaving of the epoch protocol, for a few runs, partitions, operators, attempts and
//! crashes.
//!
//! The model visits all states that one epoch can reach (depth first, each state once) and calls
//! the real functions of [`holdfast_host::protocol`] at each step. It contains:
//!
//! - Two or three drivers of one query. Each may stall anywhere, and continue later or never (a
//!   crash).
//! - A driver claims its run (read, then put if absent), runs its jobs, gives their output to the
//!   sink, then writes Spark's commit log. A job evaluates all partitions or only the first
//!   (`take`); `foreachBatch` may run several.
//! - A run lists the log once, after its claim. If it then has no object of the epoch, the attempts
//!   at its tasks do not list.
//! - An attempt at a task lists, puts its object, reads the claims again and is acknowledged. Other
//!   steps may happen between these. An attempt that fails (host crash) takes no further step;
//!   another attempt, concurrent or later, replaces it. The result is 1, or either 1 or 2 if
//!   results are not repeatable.
//! - The sink is a file sink, which skips an epoch that it has (no task runs at all), or a sink
//!   that overwrites.
//! - After Spark's commit, hosts decide at any time, while stale tasks still write: a host lists,
//!   and puts the record of its decision if there is none. Other steps may happen between the two.
//! - In some worlds the job of the second operator runs in a thread that `foreachBatch` does not
//!   join. It may end after the commit.
//!
//! These invariants hold in every state (`check`):
//!
//! - What is decided is exactly what the sink was given, for all partitions.
//! - A whole output that Spark committed is never refused.
//! - The recorded decision stays. In the worlds with an unjoined thread, it has each acknowledged
//!   task of the driver that committed.
//! - No object decides that was put after Spark's commit.
//! - The published far-future rows are those of what is decided, unless an attempt has published
//!   and must still list the heads again.
//! - With repeatable results, no session is refused because of its results.
//!
//! Under at-least-once the sink may have been given more than what is applied. All other invariants
//! hold, and no session is refused because of its results.
//!
//! If only a `take` gave output to the sink and the deciding run has no object of an operator, the
//! operator has not begun.
//!
//! One case is beyond the protocol and left out: a `take` by a run that a newer one has superseded,
//! with results that are not repeatable. Its few rows look like those of a run that crashed, so the
//! newer run decides.
//!
//! `each_rule_is_needed` breaks one rule (`Broken`) at a time and checks that the model finds the
//! damage.
//!
//! `tests/epoch_chain_model/` models several epochs, rewinds and Spark's offsets.

mod check;
mod model;
mod state;
mod steps;

use std::collections::HashSet;

use holdfast_core::ProcessingGuarantee::{self, AtLeastOnce, ExactlyOnce};

use check::stays;
use model::Model;
use state::{Broken, State, World};

/// Visits every state; returns their number, or what is wrong in which state.
///
/// A state is remembered by a 64-bit hash: with ten million states, the probability of a collision
/// is one in 400,000.
fn explore(world: World) -> Result<usize, String> {
    let mut model = Model::new(world);
    let mut seen = HashSet::from([State::default().fingerprint(&model.orders, world.publishes)]);
    let mut open = vec![State::default()];
    while let Some(state) = open.pop() {
        let about = |wrong: String| format!("{wrong}: {state:?}");
        model.check(&state).map_err(about)?;
        for next in model.next(&state).map_err(about)? {
            stays(&state.recorded, &next.recorded).map_err(about)?;
            if seen.insert(next.fingerprint(&model.orders, world.publishes)) {
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
        outlives: false,
        publishes: false,
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
        World { drivers: 3, ..two },
        World {
            operators: 2,
            partitions: 1,
            outlives: true,
            plans: WHOLE,
            ..two
        },
    ]
}

/// Worlds in which one of two results has far-future rows.
fn publishing_worlds(guarantee: ProcessingGuarantee, broken: Broken) -> Vec<World> {
    let first = worlds(guarantee, broken)[0];
    let two = World {
        publishes: true,
        plans: WHOLE,
        ..first
    };
    let three = World { drivers: 3, ..two };
    vec![
        two,
        World {
            partitions: 1,
            twins: 2,
            ..three
        },
        three,
    ]
}

#[test]
fn applied_results_equal_the_sinks_in_every_interleaving() {
    all_invariants_hold(worlds(ExactlyOnce, Broken::Nothing));
}

#[test]
fn under_at_least_once_all_results_are_applied_and_stay_in_every_interleaving() {
    all_invariants_hold(worlds(AtLeastOnce, Broken::Nothing));
}

#[test]
fn published_far_future_rows_are_those_of_the_decision_in_every_interleaving() {
    all_invariants_hold(publishing_worlds(ExactlyOnce, Broken::Nothing));
    all_invariants_hold(publishing_worlds(AtLeastOnce, Broken::Nothing));
}

fn all_invariants_hold(worlds: Vec<World>) {
    for world in worlds {
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
        Broken::FirstListingBeforeClaim,
        Broken::NoReproduction,
        Broken::LowestWholeDecides,
        Broken::NoNewerObjects,
        Broken::AdoptUnseen,
        Broken::ForgetsOperators,
        Broken::RecordIsOverwritten,
        Broken::NoCommitCheck,
        Broken::NoCommitCheckBeforePut,
    ];
    all_are_needed(worlds, ExactlyOnce, &rules);
}

#[test]
fn each_rule_is_needed_under_at_least_once() {
    let rules = [
        Broken::NoReadAfterPut,
        Broken::ListBeforeClaim,
        Broken::FirstListingBeforeClaim,
        Broken::NoReproduction,
        Broken::LowestWholeDecides,
        Broken::ForgetsOperators,
        Broken::NoCommitCheck,
        Broken::NoCommitCheckBeforePut,
    ];
    all_are_needed(worlds, AtLeastOnce, &rules);
}

#[test]
fn each_rule_of_far_future_rows_is_needed() {
    let both = [Broken::NoSecondListing, Broken::LeavesOlderRows];
    all_are_needed(publishing_worlds, ExactlyOnce, &both);
    all_are_needed(publishing_worlds, AtLeastOnce, &both);
    all_are_needed(publishing_worlds, AtLeastOnce, &[Broken::PublishesOwn]);
}

fn all_are_needed(
    worlds: fn(ProcessingGuarantee, Broken) -> Vec<World>,
    guarantee: ProcessingGuarantee,
    rules: &[Broken],
) {
    for &broken in rules {
        let found = worlds(guarantee, broken)
            .into_iter()
            .find_map(|world| explore(world).err());
        let wrong =
            found.unwrap_or_else(|| panic!("{broken:?} does no damage that the model finds"));
        println!(
            "{broken:?}: {}",
            wrong.split(": State").next().unwrap_or_default()
        );
    }
}
