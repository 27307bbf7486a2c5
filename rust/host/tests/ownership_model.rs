//! Every interleaving of ownership, for three hosts and a few tasks of two runs.
//!
//! The model walks through all states (depth first, each state once) and asks the real
//! [`owner_step`] at each step. What is modelled:
//!
//! - A task asks the host of its own executor; each host reads the claims, then acts on what it
//!   read: two steps that anything may come between. A put is followed by another read, whatever
//!   came of it.
//! - Sent elsewhere, the task asks there; a host that is stopped or dead does not answer, and the
//!   task goes back with that. Sent elsewhere by that one too, it goes back and asks anew.
//! - Hosts stop, wake and die at any time. A task may also take a live host to be gone, which is
//!   wrong.
//!
//! What must hold (`check`): who serves a task was the newest owner when it last looked; nobody
//! serves a run after it read the claim of a newer one; a partition moves within a run only if
//! somebody found its owner gone; every task comes to an end within a few moves.
//! `each_rule_is_needed` takes one rule away at a time and sees the model find it out.

use std::collections::HashSet;

use holdfast_host::protocol::{Generation, HostId, Owner, OwnerStep, RunNumber, Term, owner_step};

const HOSTS: usize = 3;
/// More moves than this, and a worker would give up.
const MOVES: u8 = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    Nothing,
    /// Opens sessions of a partition that it owned once.
    GenerationNotCompared,
    /// Takes a put for its own without reading again.
    PutTakenForDone,
    /// Claims for an older run beside a newer one.
    RunsNotOrdered,
    /// Takes partitions over from owners that nobody found gone.
    TakesFromTheLiving,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Life {
    Up,
    Stopped,
    Dead,
}

type Claims = Vec<(Term, u8)>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// Asks this host next.
    Asking(u8),
    /// The host has read these claims, and acts on them.
    Read(u8, Claims),
    /// A session.
    Served(u8),
    /// Refused for a newer run.
    Refused,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Task {
    run: u64,
    home: u8,
    phase: Phase,
    /// Hosts that it found gone, as bits.
    gone: u8,
    moves: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    /// All claims, oldest first.
    claims: Claims,
    hosts: [Life; HOSTS],
    tasks: Vec<Task>,
    /// Stops, deaths and errors that may still happen.
    troubles: u8,
    /// Hosts that anybody has found gone, as bits.
    found_gone: u8,
}

struct Model {
    broken: Broken,
    seen: HashSet<State>,
    /// What went wrong first.
    damage: Option<String>,
}

fn id(host: u8) -> HostId {
    HostId(host.to_string())
}

fn owners(claims: &Claims) -> Vec<Owner> {
    let owner = |&(term, host): &(Term, u8)| Owner {
        term,
        host: id(host),
        endpoint: Some(String::new()),
        token: String::new(),
        application: None,
    };
    claims.iter().map(owner).collect()
}

/// [`OwnerStep`] with a host's number.
enum Step {
    Held(Term),
    Ask(u8),
    Put(Term),
    Superseded,
}

impl Model {
    fn step(&self, claims: &Claims, me: u8, task: &Task) -> Step {
        let all = owners(claims);
        let run = RunNumber(task.run);
        let gone = |host: &HostId| task.gone & (1 << host.0.parse::<u8>().expect("a number")) != 0;
        let newest = claims.iter().max();
        match (self.broken, newest) {
            (Broken::GenerationNotCompared, Some(_)) => {
                if let Some((term, _)) = claims
                    .iter()
                    .filter(|(term, host)| term.run == run && *host == me)
                    .max()
                {
                    return Step::Held(*term);
                }
            }
            (Broken::RunsNotOrdered, Some((term, _))) if term.run > run => {
                let older: Vec<Owner> = all
                    .into_iter()
                    .filter(|owner| owner.term.run <= run)
                    .collect();
                return translate(owner_step(&older, &id(me), run, None, &gone));
            }
            (Broken::TakesFromTheLiving, Some((term, host))) if term.run == run && *host != me => {
                return Step::Put(term.next());
            }
            _ => {}
        }
        translate(owner_step(&all, &id(me), run, None, &gone))
    }

    fn explore(&mut self, state: State) {
        let mut stack = vec![state];
        while let Some(state) = stack.pop() {
            if self.damage.is_some() || !self.seen.insert(state.clone()) {
                continue;
            }
            let before = stack.len();
            for task in 0..state.tasks.len() {
                self.advance(&state, task, &mut stack);
            }
            let stuck = stack.len() == before;
            troubles(&state, &mut stack);
            let waits = |task: &Task| state.hosts[usize::from(task.home)] != Life::Up;
            let done = |task: &Task| matches!(task.phase, Phase::Served(_) | Phase::Refused);
            if stuck && !state.tasks.iter().all(|task| done(task) || waits(task)) {
                self.damage = Some(format!("a task comes to no end: {state:?}"));
            }
        }
    }

    fn advance(&mut self, state: &State, number: usize, next: &mut Vec<State>) {
        let task = &state.tasks[number];
        let mut then = |state: State| {
            if state.tasks[number].moves > MOVES {
                self.damage = Some(format!("a task is sent about: {state:?}"));
            }
            next.push(state);
        };
        match &task.phase {
            Phase::Asking(host) if state.hosts[usize::from(*host)] == Life::Up => {
                let mut asked = state.clone();
                asked.tasks[number].phase = Phase::Read(*host, state.claims.clone());
                then(asked);
                // The network may say otherwise.
                if *host != task.home && state.troubles > 0 {
                    let mut wrong = not_answered(state, number, *host);
                    wrong.troubles -= 1;
                    then(wrong);
                }
            }
            // Its own host does not answer: the task fails, or waits for it to wake.
            Phase::Asking(host) if *host == task.home => {}
            Phase::Asking(host) => then(not_answered(state, number, *host)),
            Phase::Read(host, claims) => {
                if state.hosts[usize::from(*host)] != Life::Up {
                    if *host != task.home {
                        then(not_answered(state, number, *host));
                    }
                    return;
                }
                let mut acted = state.clone();
                acted.tasks[number].phase = match self.step(claims, *host, task) {
                    Step::Held(term) => {
                        self.check_served(claims, *host, task, term);
                        Phase::Served(*host)
                    }
                    Step::Superseded => Phase::Refused,
                    // Only the host of its own executor sends it on; from elsewhere it comes back
                    // first.
                    Step::Ask(other) => {
                        acted.tasks[number].moves += 1;
                        Phase::Asking(if *host == task.home { other } else { task.home })
                    }
                    Step::Put(term) => {
                        let absent = state.claims.iter().all(|(taken, _)| *taken != term);
                        if absent {
                            self.check_moved(state, *host, term);
                            acted.claims.push((term, *host));
                            acted.claims.sort();
                        }
                        if self.broken == Broken::PutTakenForDone {
                            self.check_served(&acted.claims, *host, task, term);
                            Phase::Served(*host)
                        } else {
                            Phase::Read(*host, acted.claims.clone())
                        }
                    }
                };
                next.push(acted);
            }
            Phase::Served(_) | Phase::Refused => {}
        }
    }

    fn check_served(&mut self, claims: &Claims, host: u8, task: &Task, term: Term) {
        let newest = claims.iter().max();
        if newest != Some(&(term, host)) || term.run.0 != task.run {
            self.damage = Some(format!(
                "host {host} serves run {} under {term}, and has read {newest:?}",
                task.run
            ));
        }
    }

    fn check_moved(&mut self, state: &State, host: u8, term: Term) {
        let Some((newest, owner)) = state.claims.iter().max() else {
            return;
        };
        if newest.run == term.run && *owner != host && state.found_gone & (1 << owner) == 0 {
            self.damage = Some(format!(
                "{term} takes the partition from host {owner}, which nobody found gone"
            ));
        }
    }
}

fn translate(step: OwnerStep<'_>) -> Step {
    match step {
        OwnerStep::Held(term) => Step::Held(term),
        OwnerStep::Ask(owner) => Step::Ask(owner.host.0.parse().expect("a number")),
        OwnerStep::Put(term) => Step::Put(term),
        OwnerStep::Superseded => Step::Superseded,
    }
}

fn not_answered(state: &State, number: usize, host: u8) -> State {
    let mut next = state.clone();
    let task = &mut next.tasks[number];
    task.gone |= 1 << host;
    task.moves += 1;
    task.phase = Phase::Asking(task.home);
    next.found_gone |= 1 << host;
    next
}

fn troubles(state: &State, next: &mut Vec<State>) {
    for host in 0..HOSTS {
        let mut change = |life: Life, cost: u8| {
            let mut changed = state.clone();
            changed.hosts[host] = life;
            changed.troubles -= cost;
            next.push(changed);
        };
        match state.hosts[host] {
            Life::Up if state.troubles > 0 => {
                change(Life::Stopped, 1);
                change(Life::Dead, 1);
            }
            Life::Stopped => change(Life::Up, 0),
            Life::Up | Life::Dead => {}
        }
    }
}

/// Explores; the damage that was found, and the number of states.
fn explore(
    broken: Broken,
    tasks: &[(u64, u8)],
    claims: &[(u64, u64, u8)],
    troubles: u8,
) -> (Option<String>, usize) {
    let task = |&(run, home): &(u64, u8)| Task {
        run,
        home,
        phase: Phase::Asking(home),
        gone: 0,
        moves: 0,
    };
    let claim = |&(run, generation, host): &(u64, u64, u8)| {
        (
            Term {
                run: RunNumber(run),
                generation: Generation(generation),
            },
            host,
        )
    };
    let start = State {
        claims: claims.iter().map(claim).collect(),
        hosts: [Life::Up; HOSTS],
        tasks: tasks.iter().map(task).collect(),
        troubles,
        found_gone: 0,
    };
    let mut model = Model {
        broken,
        seen: HashSet::new(),
        damage: None,
    };
    model.explore(start);
    (model.damage, model.seen.len())
}

/// Tasks by run and home, and the claims that are there already.
type World = (&'static [(u64, u8)], &'static [(u64, u64, u8)], u8);

const WORLDS: [World; 5] = [
    // A first epoch, everywhere at once.
    (&[(1, 0), (1, 1), (1, 2)], &[], 1),
    // An owner, and tasks elsewhere; retries.
    (&[(1, 1), (1, 2)], &[(1, 1, 0)], 3),
    (&[(1, 0), (1, 1), (1, 1)], &[(1, 1, 0)], 2),
    // An owner that was away, and the one that came after it.
    (&[(1, 0), (1, 2)], &[(1, 1, 0), (1, 2, 1)], 3),
    // A new run beside tasks of the old one.
    (&[(1, 0), (2, 1), (2, 2)], &[(1, 1, 0)], 2),
];

#[test]
fn ownership_holds_in_every_interleaving() {
    for (tasks, claims, troubles) in WORLDS {
        let (damage, states) = explore(Broken::Nothing, tasks, claims, troubles);
        assert_eq!(damage, None, "{tasks:?} over {claims:?}");
        assert!(
            states > 100,
            "only {states} states of {tasks:?} over {claims:?}: the model does not move"
        );
    }
}

#[test]
fn each_rule_is_needed() {
    for broken in [
        Broken::GenerationNotCompared,
        Broken::PutTakenForDone,
        Broken::RunsNotOrdered,
        Broken::TakesFromTheLiving,
    ] {
        let found = WORLDS
            .iter()
            .any(|(tasks, claims, troubles)| explore(broken, tasks, claims, *troubles).0.is_some());
        assert!(found, "{broken:?} goes unnoticed");
    }
}
