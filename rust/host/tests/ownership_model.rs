//! Every interleaving of ownership, for three hosts and a few tasks of two runs.
//!
//! The model visits all states (depth first, each state once) and calls the real [`owner_step`] at
//! each step. It contains:
//!
//! - A task asks the host of its own executor. Each host reads the claims, then acts on what it
//!   read; other steps may happen between the two. After a put the host reads again, whether the
//!   put succeeded or not.
//! - A task that is sent to another host asks there. If that host is stopped or dead, it does not
//!   answer, and the task returns and reports it. If that host sends it elsewhere too, the task
//!   returns and asks again.
//! - Hosts stop, wake and die at any time. A task may also take a live host for unreachable.
//!
//! These invariants hold (`check`):
//!
//! - The host that serves a task was the newest owner when it last read the claims.
//! - No host serves a run after it read a newer run's claim.
//! - A partition moves within a run only if its owner was found unreachable.
//! - Every task ends after a few moves.
//!
//! `each_rule_is_needed` breaks one rule at a time and checks that the model finds the damage.

use std::collections::HashSet;

use holdfast_host::protocol::{
    Generation, HostId, KeyFingerprint, Owner, OwnerStep, RunNumber, TcpEndpoint, Term, owner_step,
};

const HOSTS: usize = 3;
/// More moves than this mean that hosts send a task back and forth. A real worker follows 16.
const MOVES: u8 = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    Nothing,
    /// A host opens sessions of a partition that it owned once.
    GenerationNotCompared,
    /// A host treats a put as successful without reading again.
    PutTakenForDone,
    /// A host claims for an older run although there is a newer one.
    RunsNotOrdered,
    /// A host takes partitions over from owners that are not known to be unreachable.
    TakesFromReachable,
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
    /// The task asks this host next.
    Asking(u8),
    /// The host has read these claims and acts on them next.
    Read(u8, Claims),
    /// This host serves the task.
    Served(u8),
    /// The task was refused because of a newer run.
    Refused,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Task {
    run: u64,
    home: u8,
    phase: Phase,
    /// Hosts that the task found unreachable, as bits.
    unreachable: u8,
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
    /// Hosts that any task found unreachable, as bits.
    found_unreachable: u8,
}

struct Model {
    broken: Broken,
    seen: HashSet<State>,
    /// The first broken invariant.
    damage: Option<String>,
}

fn id(host: u8) -> HostId {
    HostId(host.to_string())
}

fn owners(claims: &Claims) -> Vec<Owner> {
    let owner = |&(term, host): &(Term, u8)| Owner {
        term,
        host: id(host),
        endpoint: Some(TcpEndpoint {
            address: String::new(),
            key: KeyFingerprint([0; 32]),
        }),
        application: None,
    };
    claims.iter().map(owner).collect()
}

/// [`OwnerStep`] with the host's number.
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
        let unreachable =
            |host: &HostId| task.unreachable & (1 << host.0.parse::<u8>().expect("a number")) != 0;
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
                return translate(owner_step(&older, &id(me), run, None, &unreachable, None));
            }
            (Broken::TakesFromReachable, Some((term, host))) if term.run == run && *host != me => {
                return Step::Put(term.next());
            }
            _ => {}
        }
        translate(owner_step(&all, &id(me), run, None, &unreachable, None))
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
                self.damage = Some(format!("a task never ends: {state:?}"));
            }
        }
    }

    fn advance(&mut self, state: &State, number: usize, next: &mut Vec<State>) {
        let task = &state.tasks[number];
        let mut then = |state: State| {
            if state.tasks[number].moves > MOVES {
                self.damage = Some(format!("a task is sent from host to host: {state:?}"));
            }
            next.push(state);
        };
        match &task.phase {
            Phase::Asking(host) if state.hosts[usize::from(*host)] == Life::Up => {
                let mut asked = state.clone();
                asked.tasks[number].phase = Phase::Read(*host, state.claims.clone());
                then(asked);
                // The network may fail.
                if *host != task.home && state.troubles > 0 {
                    let mut wrong = not_answered(state, number, *host);
                    wrong.troubles -= 1;
                    then(wrong);
                }
            }
            // The task's own host does not answer: the task fails, or waits until the host wakes.
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
                    // Only the host of the task's own executor redirects the task. From another
                    // host, the task returns to its own host first.
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
        if newest.run == term.run && *owner != host && state.found_unreachable & (1 << owner) == 0 {
            self.damage = Some(format!(
                "{term} takes the partition from host {owner}, which was not found unreachable"
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
    task.unreachable |= 1 << host;
    task.moves += 1;
    task.phase = Phase::Asking(task.home);
    next.found_unreachable |= 1 << host;
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

/// Explores a world; returns the damage that was found, and the number of states.
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
        unreachable: 0,
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
        found_unreachable: 0,
    };
    let mut model = Model {
        broken,
        seen: HashSet::new(),
        damage: None,
    };
    model.explore(start);
    (model.damage, model.seen.len())
}

/// Tasks by run and home, existing claims, and the number of troubles.
type World = (&'static [(u64, u8)], &'static [(u64, u64, u8)], u8);

const WORLDS: [World; 5] = [
    // The first epoch, on all hosts at once.
    (&[(1, 0), (1, 1), (1, 2)], &[], 1),
    // An owner, and tasks elsewhere; retries.
    (&[(1, 1), (1, 2)], &[(1, 1, 0)], 3),
    (&[(1, 0), (1, 1), (1, 1)], &[(1, 1, 0)], 2),
    // An owner that was away, and its successor.
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
        Broken::TakesFromReachable,
    ] {
        let found = WORLDS
            .iter()
            .any(|(tasks, claims, troubles)| explore(broken, tasks, claims, *troubles).0.is_some());
        assert!(found, "{broken:?} is not found");
    }
}
