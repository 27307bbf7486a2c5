//! Every interleaving of planned moves, for three hosts and a few partitions.
//!
//! The model calls the real [`relieves`] and [`owner_step`]. A host that does not own a partition
//! may begin to restore it at any time, since its view of the loads may be old. After the restore
//! it reads all claims, then claims the partition. Other hosts may act between any two of these
//! steps, and a host may die.
//!
//! These invariants hold:
//!
//! - A host relieves a live owner only if it has restored the partition since that owner's claim.
//! - A host never relieves the host that has just taken the partition.
//! - Moves end. At the end, loads differ by at most one.
//!
//! `each_rule_is_needed` breaks one rule at a time and checks that the model finds the damage.

use std::collections::HashSet;

use holdfast_host::protocol::{
    HostId, KeyFingerprint, Owner, OwnerStep, RunNumber, TcpEndpoint, Term, owner_step, relieves,
};

const HOSTS: u8 = 3;
const RUN: RunNumber = RunNumber(1);
/// More planned moves than this mean that hosts move a partition back and forth.
const MOVES: u8 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    Nothing,
    /// A host claims before it has restored the partition.
    ClaimsUnrestored,
    /// A host claims although the partition has moved since it began.
    TermNotCompared,
    /// A host relieves a host that has only one partition more.
    SmallDifference,
    /// A host does not read the claims again before it claims.
    LoadsNotRead,
    /// A host that joins waits until others die.
    NeverMoves,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Restoring,
    Restored,
    Counted,
}

/// A host's planned move: the partition, and the term of its owner at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Move {
    partition: usize,
    term: Term,
    phase: Phase,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    /// The newest claim of each partition.
    owners: Vec<(Term, u8)>,
    moves: [Option<Move>; HOSTS as usize],
    is_dead: [bool; HOSTS as usize],
    /// How often a live owner was relieved since the last death.
    moved: u8,
    deaths: u8,
}

impl State {
    fn load(&self, host: u8) -> usize {
        self.owners
            .iter()
            .filter(|(_, owner)| *owner == host)
            .count()
    }

    fn live(&self) -> impl Iterator<Item = u8> {
        (0..HOSTS).filter(|host| !self.is_dead[usize::from(*host)])
    }
}

fn id(host: u8) -> HostId {
    HostId(host.to_string())
}

struct Model {
    broken: Broken,
    seen: HashSet<State>,
    damage: Option<String>,
}

impl Model {
    fn explore(&mut self, start: State) {
        let mut stack = vec![start];
        while let Some(state) = stack.pop() {
            if self.damage.is_some() || !self.seen.insert(state.clone()) {
                continue;
            }
            let mut is_quiet = true;
            for host in state.live() {
                is_quiet &= self.advance(&state, host, &mut stack);
            }
            let before = stack.len();
            self.take_from_the_dead(&state, &mut stack);
            if is_quiet && stack.len() == before {
                self.check_balanced(&state);
            }
            if state.deaths > 0 {
                for host in state.live() {
                    let mut next = state.clone();
                    next.is_dead[usize::from(host)] = true;
                    next.moves[usize::from(host)] = None;
                    (next.deaths, next.moved) = (state.deaths - 1, 0);
                    stack.push(next);
                }
            }
        }
    }

    fn is_relief(&self, state: &State, owner: u8, host: u8) -> bool {
        let (theirs, mine) = (state.load(owner), state.load(host));
        match self.broken {
            Broken::SmallDifference => theirs > mine,
            Broken::NeverMoves => false,
            _ => relieves(theirs, mine),
        }
    }

    /// Adds the next step of a host's planned move, or the start of a move. Returns whether a host
    /// that knows all loads would do nothing.
    fn advance(&mut self, state: &State, host: u8, next: &mut Vec<State>) -> bool {
        let place = usize::from(host);
        let with = |planned: Option<Move>| {
            let mut then = state.clone();
            then.moves[place] = planned;
            then
        };
        let Some(planned) = state.moves[place] else {
            let mut is_quiet = true;
            for (partition, (term, owner)) in state.owners.iter().enumerate() {
                if *owner == host || state.is_dead[usize::from(*owner)] {
                    continue;
                }
                // The host's view of the loads may be old, so it may begin in any case.
                next.push(with(Some(Move {
                    partition,
                    term: *term,
                    phase: Phase::Restoring,
                })));
                is_quiet &= !self.is_relief(state, *owner, host);
            }
            return is_quiet;
        };
        let (_, owner) = state.owners[planned.partition];
        match planned.phase {
            Phase::Restoring => {
                next.push(with(Some(Move {
                    phase: Phase::Restored,
                    ..planned
                })));
                if self.broken == Broken::ClaimsUnrestored {
                    next.push(self.claim(state, host, planned));
                }
            }
            Phase::Restored
                if self.broken == Broken::LoadsNotRead || self.is_relief(state, owner, host) =>
            {
                next.push(with(Some(Move {
                    phase: Phase::Counted,
                    ..planned
                })));
            }
            Phase::Restored => next.push(with(None)),
            Phase::Counted => {
                let then = self.claim(state, host, planned);
                next.push(then);
            }
        }
        false
    }

    fn claim(&mut self, state: &State, host: u8, planned: Move) -> State {
        let mut then = state.clone();
        then.moves[usize::from(host)] = None;
        let (term, owner) = state.owners[planned.partition];
        let claims = [Owner {
            term,
            host: id(owner),
            endpoint: Some(TcpEndpoint {
                address: String::new(),
                key: KeyFingerprint([0; 32]),
            }),
            application: None,
        }];
        let restored = if self.broken == Broken::TermNotCompared {
            term
        } else {
            planned.term
        };
        let is_dead = |host: &HostId| state.is_dead[host.0.parse::<usize>().expect("a number")];
        let step = owner_step(&claims, &id(host), RUN, None, &is_dead, Some(restored));
        let OwnerStep::Put(put) = step else {
            return then;
        };
        then.owners[planned.partition] = (put, host);
        if !is_dead(&id(owner)) {
            then.moved += 1;
            if planned.phase == Phase::Restoring {
                self.damage = Some(format!("an epoch waits for a restore: {state:?}"));
            }
            if planned.term != term {
                self.damage = Some(format!(
                    "it relieves a host that it did not choose: {state:?}"
                ));
            }
            if then.moved > MOVES {
                self.damage = Some(format!("partitions move without end: {then:?}"));
            }
        }
        then
    }

    /// The partitions of a dead host go to the hosts whose tasks find it dead.
    fn take_from_the_dead(&self, state: &State, next: &mut Vec<State>) {
        for (partition, (term, owner)) in state.owners.iter().enumerate() {
            if state.is_dead[usize::from(*owner)] {
                for host in state.live() {
                    let mut then = state.clone();
                    then.owners[partition] = (term.next(), host);
                    next.push(then);
                }
            }
        }
    }

    fn check_balanced(&mut self, state: &State) {
        let loads: Vec<usize> = state.live().map(|host| state.load(host)).collect();
        let (least, most) = (loads.iter().min(), loads.iter().max());
        if let (Some(least), Some(most)) = (least, most)
            && most - least > 1
        {
            self.damage = Some(format!("loads {loads:?} stay unequal: {state:?}"));
        }
    }
}

/// Explores a world: the owner of each partition, and how many hosts may die.
fn explore(broken: Broken, owners: &[u8], deaths: u8) -> (Option<String>, usize) {
    let mut model = Model {
        broken,
        seen: HashSet::new(),
        damage: None,
    };
    model.explore(State {
        owners: owners
            .iter()
            .map(|owner| (Term::first(RUN), *owner))
            .collect(),
        moves: [None; HOSTS as usize],
        is_dead: [false; HOSTS as usize],
        moved: 0,
        deaths,
    });
    (model.damage, model.seen.len())
}

const WORLDS: [(&[u8], u8); 4] = [
    // Hosts join beside one that has all partitions.
    (&[0, 0, 0, 0], 0),
    (&[0, 0, 0, 0, 0], 0),
    // One host joins.
    (&[0, 0, 1, 1, 1], 0),
    // A host is lost: its partitions spread over the others.
    (&[0, 0, 1, 2], 1),
];

#[test]
fn loads_become_equal_in_every_interleaving() {
    for (owners, deaths) in WORLDS {
        let (damage, states) = explore(Broken::Nothing, owners, deaths);
        assert_eq!(damage, None, "{owners:?}");
        assert!(states > 50, "only {states} states of {owners:?}");
    }
}

#[test]
fn each_rule_is_needed() {
    for broken in [
        Broken::ClaimsUnrestored,
        Broken::TermNotCompared,
        Broken::SmallDifference,
        Broken::LoadsNotRead,
        Broken::NeverMoves,
    ] {
        let found = WORLDS
            .iter()
            .any(|(owners, deaths)| explore(broken, owners, *deaths).0.is_some());
        assert!(found, "{broken:?} is not found");
    }
}
