//! Every interleaving of the epoch protocol, for a few runs, partitions, operators, attempts and crashes.
//!
//! The model walks through all states that one epoch can reach (depth first, each state once) and asks the real
//! functions of [`holdfast_host::protocol`] at each step. What is modelled:
//!
//! - Two or three drivers of one query, each of which may stall anywhere and wake later, or never (a crash).
//! - A driver claims its run (read, then put if absent), runs its jobs, hands their output to the sink, then writes
//!   Spark's commit log. A job evaluates all partitions or only the first (`take`); `foreachBatch` may do several.
//! - An attempt at a task lists, puts its object, reads the claims again and is acknowledged: three steps that anything
//!   may come between. One that fails (host crash) is one that goes no further; a twin, beside it or after it, takes its
//!   place. Its result is 1, or freely 1 or 2 where results are not repeatable.
//! - The sink is a file sink, which skips an epoch that it has (no task runs at all), or one that overwrites.
//! - After Spark's commit hosts apply what the protocol decides, at any time, while stale tasks still write.
//!
//! What must hold in every state (`check`): what is applied is exactly what the sink was given, for all partitions; a
//! whole output that Spark committed is never refused; what was applied once stays the decision; and with repeatable
//! results and whole evaluations nothing is ever refused but for being fenced.
//!
//! Where only a `take` reached the sink and the deciding run has nothing of an operator, that one is refused at its next
//! session.
//!
//! Two things are beyond the protocol, and left out; both need a `take`, results that are not repeatable and stale
//! drivers that still write after Spark's commit. A `take` by a run that a newer one has superseded: nobody can tell its
//! few rows from those of a run that crashed, so the newer run decides. And a `take` beside *two* stale drivers, both of
//! which become whole after they were fenced, one after the commit: the decision goes from one to the other. Only a
//! record of the first decision, put if absent, could prevent that.
//!
//! `each_rule_is_needed` takes one rule away at a time (does not read the runs again after a put, lists before it
//! claims, does not reproduce an older whole run, lets the lowest whole run decide, ignores doubts, adopts without
//! comparing, counts a run as whole that an operator is missing from) and sees the model find the damage.

use std::collections::{HashMap, HashSet};

use holdfast_host::protocol::{
    self, Claim, ClaimStep, Decision, Digest, Epoch, HeadSummary, ObjectId, OperatorName, Partition, RunNumber, StageStep,
};
use xxhash_rust::xxh3::xxh3_64;

const RUNS: usize = 3;
const SLOTS: usize = 4;
const TWINS: usize = 2;

/// A rule that is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    Nothing,
    NoReadAfterPut,
    ListBeforeClaim,
    NoReproduction,
    LowestWholeDecides,
    NoDoubts,
    AdoptUnseen,
    ForgetsOperators,
}

/// What the model is let loose on.
#[derive(Clone, Copy, Debug)]
struct World {
    drivers: usize,
    operators: usize,
    partitions: usize,
    /// How many attempts at a task may run side by side.
    twins: usize,
    repeatable: bool,
    file_sink: bool,
    /// What `foreachBatch` may do: for each job, whether it evaluates everything.
    plans: &'static [&'static [bool]],
    broken: Broken,
}

/// A result, as the digest that it stands for; 0 is "none".
type Content = u8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Session {
    /// Not begun, or failed: another attempt may come.
    #[default]
    Idle,
    /// Has a result and has listed: no older whole run has another one.
    Listed(Content),
    /// Its object, or an equal one, is there.
    Put(Content),
    Acknowledged(Content),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum Phase {
    #[default]
    NotStarted,
    /// Has read the claims: there were so many.
    Claiming(u8),
    Running(u8),
    /// The job's output is with the sink.
    Delivered(u8),
    Committed,
    Dead,
}

#[derive(Clone, Copy, Debug, Default)]
struct Driver {
    phase: Phase,
    plan: u8,
    /// Its run number, 0 before the claim.
    run: u8,
    sessions: [[Session; TWINS]; SLOTS],
    /// Results of partial jobs, as bits: they count if this driver commits.
    partial: [u8; SLOTS],
    /// With `ListBeforeClaim`: what it saw then.
    early: [Content; SLOTS],
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Which driver has claimed which number.
    claims: [u8; RUNS],
    claimed: u8,
    objects: [[Content; SLOTS]; RUNS],
    drivers: [Driver; RUNS],
    sink_has_epoch: bool,
    committed: bool,
    /// A job over all partitions reached the sink.
    whole: bool,
    /// What whole jobs gave to the sink, by slot, as bits of contents.
    given: [u8; SLOTS],
    /// The run of the driver that wrote Spark's commit log.
    committer: u8,
    /// What that driver's partial jobs gave away.
    given_in_part: [u8; SLOTS],
}

type Memo = HashMap<u32, Option<usize>>;

struct Model {
    world: World,
    objects: Vec<Vec<ObjectId>>,
    claims: Vec<Vec<Claim>>,
    /// Orders of the slots that make no difference.
    orders: Vec<[usize; SLOTS]>,
    decisions: Memo,
    older: Memo,
}

impl Model {
    fn new(world: World) -> Self {
        let object = |run: usize, slot: usize| ObjectId {
            operator: OperatorName::new(format!("op{}", slot / world.partitions)).expect("a name"),
            partition: Partition((slot % world.partitions) as i32),
            run: RunNumber(run as u64 + 1),
        };
        let objects = (0..RUNS).map(|run| (0..SLOTS).map(|slot| object(run, slot)).collect()).collect();
        let claims = (0..=RUNS).map(|count| (0..count).map(|i| claim(i as u8, i as u8)).collect()).collect();
        let orders = orders(&world);
        Self { world, objects, claims, orders, decisions: Memo::new(), older: Memo::new() }
    }

    fn slots(&self) -> usize {
        self.world.operators * self.world.partitions
    }

    fn listing(&self, state: &State) -> Vec<ObjectId> {
        let there = (0..RUNS).flat_map(|run| (0..SLOTS).map(move |slot| (run, slot)));
        there.filter(|&(run, slot)| state.objects[run][slot] != 0).map(|(run, slot)| self.objects[run][slot].clone()).collect()
    }

    /// The run (from 0) that decides, as far as presence goes.
    fn decide(&self, objects: Vec<ObjectId>) -> Option<usize> {
        let partitions = self.world.partitions as u32;
        let alone = |run: &RunNumber| {
            let one: Vec<_> = objects.iter().filter(|object| object.run == *run).cloned().collect();
            protocol::decide(&one, partitions) == Decision::Run(*run)
        };
        let mut runs = (1..=RUNS as u64).map(RunNumber);
        let run = match (self.world.broken, protocol::decide(&objects, partitions)) {
            (Broken::LowestWholeDecides, _) => runs.find(alone)?,
            (Broken::ForgetsOperators, _) => runs.rfind(alone)?,
            (_, Decision::Run(run)) => run,
            (_, Decision::Partial { .. } | Decision::Nothing) => return None,
        };
        Some(run.0 as usize - 1)
    }

    /// The run (from 0) that decides, none for an error.
    fn decided(&mut self, state: &State) -> Option<usize> {
        let key = presence(state);
        let run = match self.decisions.get(&key) {
            Some(run) => *run,
            None => {
                let run = self.decide(self.listing(state));
                self.decisions.insert(key, run);
                run
            }
        };
        let run = run?;
        if matches!(self.world.broken, Broken::NoDoubts | Broken::LowestWholeDecides) {
            return Some(run);
        }
        let higher = (run + 1..RUNS).any(|above| state.objects[above] != [0; SLOTS]);
        if higher {
            for doubt in protocol::doubts(&self.listing(state), RunNumber(run as u64 + 1)) {
                let above = doubt.run.0 as usize - 1;
                let slot = (0..SLOTS).find(|slot| self.objects[above][*slot] == doubt).expect("one of ours");
                if !protocol::reproduces(&summary(state.objects[run][slot]), &summary(state.objects[above][slot])) {
                    return None;
                }
            }
        }
        Some(run)
    }

    /// What an older whole run has in a slot.
    fn older_content(&mut self, state: &State, run: u8, slot: usize) -> Content {
        let key = presence(state) << 4 | u32::from(run);
        let older = match self.older.get(&key) {
            Some(older) => *older,
            None => {
                let mut objects = self.listing(state);
                let older = if self.world.broken == Broken::ForgetsOperators {
                    objects.retain(|object| object.run.0 < u64::from(run));
                    self.decide(objects)
                } else {
                    let older = protocol::older_whole(&objects, self.world.partitions as u32, RunNumber(run.into()));
                    older.map(|run| run.0 as usize - 1)
                };
                self.older.insert(key, older);
                older
            }
        };
        older.map_or(0, |older| state.objects[older][slot])
    }

    /// All states that may come next.
    fn next(&mut self, state: &State) -> Result<Vec<State>, String> {
        let mut out = Vec::new();
        for d in 0..self.world.drivers {
            self.drive(state, d, &mut out)?;
        }
        Ok(out)
    }

    fn drive(&mut self, state: &State, d: usize, out: &mut Vec<State>) -> Result<(), String> {
        let driver = state.drivers[d];
        match driver.phase {
            Phase::NotStarted => self.start(state, d, out),
            Phase::Claiming(seen) => {
                let mut next = *state;
                // Put if absent: it is free only if nobody has claimed since.
                if state.claimed == seen {
                    next.claims[usize::from(seen)] = d as u8;
                    next.claimed = seen + 1;
                    next.drivers[d].run = seen + 1;
                    next.drivers[d].phase = Phase::Running(0);
                    out.push(next);
                } else {
                    self.read_claims(&mut next, d);
                    out.push(next);
                }
            }
            Phase::Running(job) => {
                let whole = self.world.plans[usize::from(driver.plan)][usize::from(job)];
                let wanted = if whole { self.slots() } else { 1 };
                for slot in 0..wanted {
                    for attempt in 0..self.world.twins {
                        self.session(state, d, slot, attempt, out)?;
                    }
                }
                let results: Vec<Content> = driver.sessions[..wanted].iter().filter_map(acknowledged).collect();
                if results.len() == wanted {
                    out.push(self.deliver(state, d, job, whole, &results));
                }
            }
            Phase::Delivered(job) => {
                let mut next = *state;
                if usize::from(job) + 1 < self.world.plans[usize::from(driver.plan)].len() {
                    next.drivers[d].phase = Phase::Running(job + 1);
                } else if state.committed {
                    next.drivers[d].phase = Phase::Dead;
                } else {
                    next.committed = true;
                    next.drivers[d].phase = Phase::Committed;
                    next.committer = driver.run;
                    next.given_in_part = driver.partial;
                }
                out.push(next);
            }
            Phase::Committed | Phase::Dead => {}
        }
        Ok(())
    }

    fn start(&mut self, state: &State, d: usize, out: &mut Vec<State>) {
        // A driver that finds the epoch committed goes on to the next one: `check` stands for that.
        if state.committed || (d > 0 && state.drivers[d - 1].phase == Phase::NotStarted) {
            return;
        }
        for plan in 0..self.world.plans.len() {
            let mut next = *state;
            next.drivers[d].plan = plan as u8;
            if self.world.file_sink && state.sink_has_epoch {
                next.drivers[d].phase = Phase::Delivered(0);
            } else {
                if self.world.broken == Broken::ListBeforeClaim {
                    let run = state.claimed + 1;
                    (0..self.slots()).for_each(|slot| next.drivers[d].early[slot] = self.older_content(state, run, slot));
                }
                self.read_claims(&mut next, d);
            }
            out.push(next);
        }
    }

    fn read_claims(&self, state: &mut State, d: usize) {
        let claims: Vec<Claim> = (0..state.claimed).map(|i| claim(i, state.claims[usize::from(i)])).collect();
        state.drivers[d].phase = match protocol::next_claim(&claims, &d.to_string(), Epoch(5), state.committed) {
            ClaimStep::Put(number) => Phase::Claiming(number.0 as u8 - 1),
            ClaimStep::Refused { .. } => Phase::Dead,
            ClaimStep::Known(_) => unreachable!("a driver claims once"),
        };
    }

    fn session(&mut self, state: &State, d: usize, slot: usize, attempt: usize, out: &mut Vec<State>) -> Result<(), String> {
        let driver = state.drivers[d];
        let run = driver.run;
        let mut to = |session: Session| {
            let mut next = *state;
            let task = &mut next.drivers[d].sessions[slot];
            task[attempt] = session;
            if let Session::Acknowledged(_) = session {
                // Its twins can do no more than adopt.
                *task = [session, Session::Idle];
            }
            task.sort_unstable_by(|a, b| b.cmp(a));
            out.push(next);
        };
        match driver.sessions[slot][attempt] {
            Session::Idle if acknowledged(&driver.sessions[slot]).is_none() => {
                let older = match self.world.broken {
                    Broken::ListBeforeClaim => driver.early[slot],
                    Broken::NoReproduction => 0,
                    _ => self.older_content(state, run, slot),
                };
                let results: &[Content] = if self.world.repeatable { &[1] } else { &[1, 2] };
                for result in results {
                    if older == 0 || protocol::reproduces(&summary(older), &summary(*result)) {
                        to(Session::Listed(*result));
                    } else {
                        self.refused("an older whole run is not reproduced")?;
                    }
                }
            }
            Session::Listed(mine) => {
                let there = state.objects[usize::from(run) - 1][slot];
                let first = (there != 0).then(|| summary(there));
                match protocol::stage_step(first.as_ref(), &summary(mine)) {
                    StageStep::Write => {
                        let mut next = *state;
                        next.objects[usize::from(run) - 1][slot] = mine;
                        next.drivers[d].sessions[slot][attempt] = Session::Put(mine);
                        next.drivers[d].sessions[slot].sort_unstable_by(|a, b| b.cmp(a));
                        out.push(next);
                    }
                    StageStep::Adopt => to(Session::Put(mine)),
                    StageStep::Mismatch { .. } if self.world.broken == Broken::AdoptUnseen => to(Session::Put(mine)),
                    StageStep::Mismatch { .. } => self.refused("attempts differ")?,
                }
            }
            Session::Put(mine) => {
                let claims = &self.claims[usize::from(state.claimed)];
                let fenced = protocol::fence(RunNumber(run.into()), claims).is_err();
                if !fenced || self.world.broken == Broken::NoReadAfterPut {
                    to(Session::Acknowledged(mine));
                }
            }
            Session::Idle | Session::Acknowledged(_) => {}
        }
        Ok(())
    }

    /// With repeatable results nothing but the fence may stop a session.
    fn refused(&self, why: &str) -> Result<(), String> {
        if self.world.repeatable { Err(format!("false alarm: {why}")) } else { Ok(()) }
    }

    fn deliver(&self, state: &State, d: usize, job: u8, whole: bool, results: &[Content]) -> State {
        let mut next = *state;
        if self.world.file_sink && state.sink_has_epoch {
            // Its log has the epoch already: the second driver's commit to it fails.
            next.drivers[d].phase = Phase::Dead;
            next.drivers[d].sessions = Default::default();
            return next;
        }
        next.drivers[d].phase = Phase::Delivered(job);
        next.drivers[d].sessions = Default::default();
        next.sink_has_epoch = true;
        for (slot, result) in results.iter().enumerate() {
            let to = if whole { &mut next.given[slot] } else { &mut next.drivers[d].partial[slot] };
            *to |= result;
        }
        next.whole |= whole;
        next
    }

    /// What a host applies in this state.
    fn applied(&mut self, state: &State) -> Option<[Content; SLOTS]> {
        let run = if state.committed { self.decided(state) } else { None };
        run.map(|run| state.objects[run])
    }

    /// Whether no job brought an operator to the sink whole, and the deciding run has none of it: the operator's next
    /// session says so.
    fn left_out(&self, state: &State, run: usize, slot: usize) -> bool {
        let first = slot / self.world.partitions * self.world.partitions;
        let none = state.objects[run][first..first + self.world.partitions].iter().all(|content| *content == 0);
        none && !state.whole
    }

    fn check(&mut self, state: &State) -> Result<(), String> {
        if !state.committed {
            return Ok(());
        }
        let Some(run) = self.decided(state) else {
            return if state.whole { Err("a committed output is refused".into()) } else { Ok(()) };
        };
        for slot in 0..self.slots() {
            let content = state.objects[run][slot];
            if content == 0 && self.left_out(state, run, slot) {
                continue;
            }
            if content == 0 {
                return Err(format!("slot {slot} is not applied"));
            }
            let in_part = if state.committer == state.claimed { state.given_in_part[slot] } else { 0 };
            let given = state.given[slot] | in_part;
            if given & !content != 0 {
                return Err(format!("slot {slot}: the sink was given {given:#b}, applied is {content:#b}"));
            }
        }
        Ok(())
    }
}

/// Which objects are there, as bits: all that decisions depend on, but for contents.
fn presence(state: &State) -> u32 {
    state.objects.iter().flatten().fold(0, |bits, content| bits << 1 | u32::from(*content != 0))
}

fn acknowledged(sessions: &[Session; TWINS]) -> Option<Content> {
    sessions.iter().find_map(|session| if let Session::Acknowledged(content) = session { Some(*content) } else { None })
}

fn summary(content: Content) -> HeadSummary {
    HeadSummary { base: Digest::ZERO, digest: Digest([content; 16]), input: Digest::ZERO, input_rows: 1 }
}

fn claim(index: u8, driver: u8) -> Claim {
    let number = RunNumber(u64::from(index) + 1);
    Claim { number, run_id: driver.to_string(), first_epoch: Epoch(5), query_id: "q".into() }
}

/// Partitions of an operator are alike, and so are operators, unless a plan evaluates the first partition alone.
fn orders(world: &World) -> Vec<[usize; SLOTS]> {
    let take = world.plans.iter().any(|plan| plan.contains(&false));
    match (take, world.operators, world.partitions) {
        (true, ..) => vec![[0, 1, 2, 3]],
        (false, 1, 2) | (false, 2, 1) => vec![[0, 1, 2, 3], [1, 0, 2, 3]],
        (false, 2, 2) => {
            let first = [[0, 1], [1, 0]];
            let both = first.iter().flat_map(|a| first.iter().map(move |b| [a[0], a[1], b[0] + 2, b[1] + 2]));
            both.flat_map(|[a, b, c, d]| [[a, b, c, d], [c, d, a, b]]).collect()
        }
        _ => unreachable!("a world that is not in the list"),
    }
}

impl State {
    /// What identifies a state: the same for states that differ only in the order of like slots, in which driver is
    /// which, and in which of the two results is called 1.
    fn fingerprint(&self, orders: &[[usize; SLOTS]]) -> u64 {
        let mut drivers = self.drivers;
        drivers.sort_unstable_by_key(|driver| (if driver.run == 0 { u8::MAX } else { driver.run }, driver.phase.code()));
        let names = [[0, 1, 2, 3], [0, 2, 1, 3]];
        let each = orders.iter().flat_map(|order| names.iter().map(move |names| (order, names)));
        let all = each.map(|(order, names)| self.code(&drivers, order, names));
        all.min().map_or(0, |code| xxh3_64(&code))
    }

    fn code(&self, drivers: &[Driver; RUNS], order: &[usize; SLOTS], names: &[u8; 4]) -> [u8; 8 + 3 * RUNS + SLOTS * (2 + 5 * RUNS)] {
        let mut code = [0; 8 + 3 * RUNS + SLOTS * (2 + 5 * RUNS)];
        let mut bytes = code.iter_mut();
        let mut push = |byte: u8| bytes.next().map_or((), |place| *place = byte);
        let flags = [self.sink_has_epoch, self.committed, self.whole].map(u8::from);
        flags.into_iter().chain([self.claimed, self.committer]).for_each(&mut push);
        drivers.iter().for_each(|driver| [driver.phase.code(), driver.plan, driver.run].into_iter().for_each(&mut push));
        let name = |content: u8| names[usize::from(content)];
        for &slot in order {
            push(name(self.given[slot]));
            push(name(self.given_in_part[slot]));
            (0..RUNS).for_each(|run| push(name(self.objects[run][slot])));
            for driver in drivers {
                driver.sessions[slot].iter().for_each(|session| push(session.code(names)));
                push(name(driver.partial[slot]));
                push(name(driver.early[slot]));
            }
        }
        code
    }
}

impl Phase {
    fn code(self) -> u8 {
        match self {
            Self::NotStarted => 0,
            Self::Committed => 1,
            Self::Dead => 2,
            Self::Claiming(seen) => 0x10 | seen,
            Self::Running(job) => 0x20 | job,
            Self::Delivered(job) => 0x30 | job,
        }
    }
}

impl Session {
    fn code(self, names: &[u8; 4]) -> u8 {
        match self {
            Self::Idle => 0,
            Self::Listed(content) => 0x10 | names[usize::from(content)],
            Self::Put(content) => 0x20 | names[usize::from(content)],
            Self::Acknowledged(content) => 0x30 | names[usize::from(content)],
        }
    }
}

/// Visits every state; the number of them, or what is wrong and in which state. A state is remembered by 64 bits of hash:
/// of ten million states, two are taken for one with a chance of one in 400,000.
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
        assert!(seen.len() < 10_000_000, "{world:?} is too large a world for a test");
    }
    Ok(seen.len())
}

/// What a host may have applied is never decided otherwise later; it may be refused later (`check` says when).
fn stays(before: &Option<[Content; SLOTS]>, after: &Option<[Content; SLOTS]>) -> Result<(), String> {
    let (Some(before), Some(after)) = (before, after) else { return Ok(()) };
    let differs = before.iter().zip(after).position(|(before, after)| *before != 0 && before != after);
    differs.map_or(Ok(()), |slot| Err(format!("slot {slot}: {} was applied, {} is decided", before[slot], after[slot])))
}

const WHOLE: &[&[bool]] = &[&[true]];
const WHOLE_OR_TAKE: &[&[bool]] = &[&[true], &[false]];
const TWICE: &[&[bool]] = &[&[true, true], &[false, true]];
const TWICE_WHOLE: &[&[bool]] = &[&[true, true]];

fn worlds(broken: Broken) -> Vec<World> {
    let two =
        World { drivers: 2, operators: 1, partitions: 2, twins: 1, repeatable: false, file_sink: false, plans: WHOLE_OR_TAKE, broken };
    vec![
        two,
        World { plans: TWICE, ..two },
        World { file_sink: true, plans: WHOLE, ..two },
        World { twins: 2, ..two },
        World { repeatable: true, twins: 2, plans: TWICE_WHOLE, ..two },
        World { operators: 2, partitions: 1, ..two },
        World { operators: 2, plans: WHOLE, ..two },
        World { operators: 2, repeatable: true, plans: TWICE_WHOLE, ..two },
        World { drivers: 3, repeatable: true, twins: 2, plans: WHOLE, ..two },
        World { drivers: 3, file_sink: true, plans: WHOLE, ..two },
        World { drivers: 3, plans: WHOLE, ..two },
        World { drivers: 3, repeatable: true, ..two },
        World { drivers: 3, operators: 2, partitions: 1, plans: WHOLE, ..two },
    ]
}

#[test]
fn what_is_applied_is_what_the_sink_was_given_in_every_interleaving() {
    for world in worlds(Broken::Nothing) {
        let start = std::time::Instant::now();
        let states = explore(world).unwrap_or_else(|wrong| panic!("{world:?}\n{wrong}"));
        assert!(states > 500, "{world:?}: only {states} states, so the model does not move");
        println!("{states:>9} states in {:>6} ms: {world:?}", start.elapsed().as_millis());
    }
}

#[test]
fn each_rule_is_needed() {
    let rules = [
        Broken::NoReadAfterPut,
        Broken::ListBeforeClaim,
        Broken::NoReproduction,
        Broken::LowestWholeDecides,
        Broken::NoDoubts,
        Broken::AdoptUnseen,
        Broken::ForgetsOperators,
    ];
    for broken in rules {
        let found = worlds(broken).into_iter().find_map(|world| explore(world).err());
        let wrong = found.unwrap_or_else(|| panic!("{broken:?} does no harm, so the model does not see it"));
        println!("{broken:?}: {}", wrong.split(": State").next().unwrap_or_default());
    }
}
