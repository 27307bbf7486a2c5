//! An operator that begins in a later epoch than the query, over all interleavings.
//!
//! A function of `foreachBatch` calls the operator `rates` in each epoch, and `later` in any of
//! them. All hosts have empty disks, so each session rebuilds its state from the decisions. The
//! model contains:
//!
//! - A driver, which may end anywhere and start again. The function may go on without `later` after
//!   an error of its session, unless an object of the epoch shows that the operator was computed.
//! - Registrations of `later` in `operators/`, in their steps: read the file and the log, check the
//!   claims, remove the file, put it if it is absent.
//! - One `holdfast rewind`. A session from before it may go on, and register the operator late.
//!
//! Two drivers at once, lost commits and folders are left out. The other models have them.
//!
//! When a session of `later` opens, its state must have exactly what the sink was given since the
//! operator's first epoch, without a gap.

mod state;

use holdfast_host::protocol::{
    self, Digest, Epoch, OpenFacts, OpenStep, PartitionId, PlannedBatch,
};

use crate::explore;
use state::{Driver, EPOCHS, EpochState, MAX_RUNS, Object, Phase, State, name, result};

/// A rule that the test switches off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// An operator that took part in an epoch does not begin in a later one.
    BegunEarlier,
    /// Each decision from the operator's first epoch on names it.
    NamedInEachEpoch,
}

struct Model {
    without: Option<Rule>,
}

impl Model {
    fn has(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }

    fn next(&self, state: &State) -> Result<Vec<State>, String> {
        let mut out = Vec::new();
        for (mut next, driver) in self.drive(state, &state.driver, false)? {
            next.driver = driver;
            out.push(next);
        }
        for (mut next, stale) in self.drive(state, &state.stale, true)? {
            next.stale = stale;
            out.push(next);
        }
        rewind(state, &mut out);
        Ok(out)
    }

    /// Returns what a driver may do next; only the session of a stale one goes on.
    fn drive(
        &self,
        state: &State,
        driver: &Driver,
        is_stale: bool,
    ) -> Result<Vec<(State, Driver)>, String> {
        let (epoch, mut out) = (driver.epoch, Vec::new());
        let at = |phase| Driver {
            phase,
            ..driver.clone()
        };
        if driver.phase != Phase::Dead {
            out.push((state.clone(), Driver::default()));
        }
        let mut to = |phase| out.push((state.clone(), at(phase)));
        match driver.phase {
            Phase::Dead if is_stale => {}
            Phase::Dead => out.extend(start(state)),
            Phase::Planned => {
                let (mut next, run) = (state.clone(), driver.run);
                if next.stage(driver, Object { run, later: None }) {
                    out.push((next, at(Phase::Staged)));
                }
            }
            Phase::Staged => {
                // An epoch that has an object of an operator is computed with it.
                if !state.has_later(epoch) {
                    to(Phase::Returned(None));
                }
                let is_new =
                    !self.has(Rule::BegunEarlier) || !(0..epoch).any(|before| state.is_of(before));
                match state.first {
                    None if is_new => to(Phase::Puts),
                    Some(first) if first == epoch && is_new => to(Phase::Registered(first)),
                    Some(first) if first != epoch && state.took_part(first, epoch) => {
                        to(Phase::Registered(first));
                    }
                    Some(first) if first != epoch && is_new => to(Phase::Replaces),
                    None | Some(_) => {}
                }
            }
            Phase::Replaces if state.is_fenced(driver) => {}
            Phase::Replaces => to(Phase::Removes),
            Phase::Removes => {
                let mut next = state.clone();
                next.first = None;
                out.push((next, at(Phase::Puts)));
            }
            Phase::Puts => {
                let mut next = state.clone();
                let first = *next.first.get_or_insert(epoch);
                out.push((next, at(Phase::Registered(first))));
            }
            Phase::Registered(first) => {
                // The session fails. Spark repeats the task, or the function goes on without it.
                if !is_stale {
                    to(Phase::Staged);
                }
                if let Some((next, chain)) = self.open(state, driver, first)? {
                    out.push((next, at(Phase::Open(chain))));
                }
            }
            Phase::Open(base) => {
                let (mut next, run) = (state.clone(), driver.run);
                let later = Some(base);
                let may_continue = next.stage(driver, Object { run, later });
                let driver = match may_continue {
                    true => at(Phase::Returned(Some(result(epoch)))),
                    false => Driver::default(),
                };
                out.push((next, driver));
            }
            Phase::Returned(given) => {
                let mut next = state.clone();
                next.epochs[epoch].given = next.epochs[epoch].given.or(given);
                out.push((next, at(Phase::Delivered)));
            }
            Phase::Delivered if epoch + 1 == EPOCHS => {}
            Phase::Delivered => {
                let mut next = state.clone();
                next.epochs[epoch].committed = true;
                let epoch = epoch + 1;
                let run = driver.run;
                let phase = Phase::Planned;
                out.push((next, Driver { phase, run, epoch }));
            }
        }
        Ok(out)
    }

    /// Opens a session of `later` whose operator's file names this first epoch.
    fn open(
        &self,
        state: &State,
        driver: &Driver,
        first: usize,
    ) -> Result<Option<(State, Digest)>, String> {
        let epoch = driver.epoch;
        let step = protocol::open_step(&OpenFacts {
            operator: name("later"),
            partition: PartitionId(0),
            epoch: Epoch(epoch as i64),
            first_epoch: Epoch(first as i64),
            applied: None,
            applied_decided: true,
            previous_committed: epoch == 0 || state.epochs[epoch - 1].committed,
            committed: state.epochs[epoch].committed,
            has_offsets: true,
            planned: PlannedBatch::default(),
        });
        let is_open = matches!(step, OpenStep::Ready | OpenStep::Apply { .. });
        if !is_open || state.is_fenced(driver) {
            return Ok(None);
        }
        let mut next = state.clone();
        if epoch > 0 && next.decide(epoch - 1).is_none() {
            return Ok(None);
        }
        let mut chain = Digest::ZERO;
        for before in first..epoch {
            match next.decide(before) {
                Some(Some(base)) if base == chain => chain = base.chain(result(before)),
                Some(None) if !self.has(Rule::NamedInEachEpoch) => {}
                _ => return Ok(None),
            }
        }
        check_open(&next, epoch, chain)?;
        Ok(Some((next, chain)))
    }
}

/// Checks the state on which a session of `later` opens.
fn check_open(state: &State, epoch: usize, chain: Digest) -> Result<(), String> {
    let (mut given, mut has_begun) = (Digest::ZERO, false);
    for (number, before) in state.epochs[..epoch].iter().enumerate() {
        match before.given {
            Some(digest) => (given, has_begun) = (given.chain(digest), true),
            None if has_begun => {
                return Err(format!("the state goes on without epoch {number}"));
            }
            None => {}
        }
    }
    if chain != given {
        return Err(format!(
            "the state before epoch {epoch} is not what the sink was given"
        ));
    }
    Ok(())
}

/// A driver starts with the first epoch that Spark has not committed, and claims a run.
fn start(state: &State) -> Option<(State, Driver)> {
    let epoch = state.epochs.iter().position(|epoch| !epoch.committed)?;
    let mut next = state.clone();
    next.runs += 1;
    let driver = Driver {
        phase: Phase::Planned,
        run: next.runs,
        epoch,
    };
    (next.runs <= MAX_RUNS).then_some((next, driver))
}

/// `holdfast rewind`: it claims a run, and moves what was computed since an epoch.
fn rewind(state: &State, out: &mut Vec<State>) {
    let committed = state.epochs.iter().filter(|epoch| epoch.committed).count();
    if state.rewind.is_some() || state.runs == MAX_RUNS {
        return;
    }
    for from in 0..committed {
        let mut next = state.clone();
        next.runs += 1;
        next.rewind = Some((next.runs, from));
        // The query is stopped. A session of `later` may still run.
        let stopped = std::mem::take(&mut next.driver);
        let is_session = matches!(
            stopped.phase,
            Phase::Replaces | Phase::Removes | Phase::Puts | Phase::Registered(_) | Phase::Open(_)
        );
        if is_session {
            next.stale = stopped;
        }
        for taken_back in &mut next.epochs[from..] {
            *taken_back = EpochState::default();
        }
        next.first = next.first.filter(|first| *first < from);
        out.push(next);
    }
}

fn explore_without(without: Option<Rule>) -> Result<usize, String> {
    let model = Model { without };
    explore(|state: &State| model.next(state))
}

#[test]
fn operator_that_begins_later_has_what_the_sink_was_given() {
    let states = explore_without(None).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(
        states > 1_000,
        "only {states} states: the model does not move"
    );
    println!("{states} states");
}

#[test]
fn each_rule_of_later_operators_is_needed() {
    for rule in [Rule::BegunEarlier, Rule::NamedInEachEpoch] {
        let wrong = explore_without(Some(rule)).err();
        let wrong = wrong.unwrap_or_else(|| panic!("{rule:?} prevents nothing that the model has"));
        println!(
            "without {rule:?}: {}",
            wrong.split(": State").next().unwrap_or_default()
        );
    }
}
