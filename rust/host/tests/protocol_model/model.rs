//! The steps: what drivers, attempts and hosts may do next in a state.

use crate::state::{Broken, Content, Phase, RUNS, SLOTS, Session, State, TWINS, World};
use holdfast_core::ProcessingGuarantee::AtLeastOnce;
use holdfast_host::protocol::{
    self, Claim, ClaimStep, Decision, Digest, Epoch, HeadSummary, ObjectId, OperatorName,
    PartitionId, ReplayStep, RunNumber, StageStep,
};
use std::collections::HashMap;

type Memo = HashMap<u32, Option<usize>>;

pub(crate) struct Model {
    pub(crate) world: World,
    objects: Vec<Vec<ObjectId>>,
    claims: Vec<Vec<Claim>>,
    /// Orders of the slots that make no difference.
    pub(crate) orders: Vec<[usize; SLOTS]>,
    decisions: Memo,
    older: Memo,
}

impl Model {
    pub(crate) fn new(world: World) -> Self {
        let object = |run: usize, slot: usize| ObjectId {
            operator: OperatorName::new(format!("op{}", slot / world.partitions)).expect("a name"),
            partition: PartitionId((slot % world.partitions) as i32),
            run: RunNumber(run as u64 + 1),
        };
        let objects = (0..RUNS)
            .map(|run| (0..SLOTS).map(|slot| object(run, slot)).collect())
            .collect();
        let claims = (0..=RUNS)
            .map(|count| (0..count).map(|i| claim(i as u8, i as u8)).collect())
            .collect();
        let orders = orders(&world);
        Self {
            world,
            objects,
            claims,
            orders,
            decisions: Memo::new(),
            older: Memo::new(),
        }
    }

    pub(crate) fn slots(&self) -> usize {
        self.world.operators * self.world.partitions
    }

    fn listing(&self, state: &State) -> Vec<ObjectId> {
        let there = (0..RUNS).flat_map(|run| (0..SLOTS).map(move |slot| (run, slot)));
        there
            .filter(|&(run, slot)| state.objects[run][slot] != 0)
            .map(|(run, slot)| self.objects[run][slot].clone())
            .collect()
    }

    /// The run (from 0) that decides, as far as presence goes.
    fn decide(&self, objects: Vec<ObjectId>) -> Option<usize> {
        let partitions = self.world.partitions as u32;
        let alone = |run: &RunNumber| {
            let one: Vec<_> = objects
                .iter()
                .filter(|object| object.run == *run)
                .cloned()
                .collect();
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
    pub(crate) fn decided(&mut self, state: &State) -> Option<usize> {
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
        if matches!(
            self.world.broken,
            Broken::NoNewerObjects | Broken::LowestWholeDecides
        ) {
            return Some(run);
        }
        let higher = (run + 1..RUNS).any(|above| state.objects[above] != [0; SLOTS]);
        if higher {
            for newer in protocol::newer_objects(&self.listing(state), RunNumber(run as u64 + 1)) {
                let above = newer.run.0 as usize - 1;
                let slot = (0..SLOTS)
                    .find(|slot| self.objects[above][*slot] == newer)
                    .expect("one of ours");
                if !protocol::reproduces(
                    &summary(state.objects[run][slot]),
                    &summary(state.objects[above][slot]),
                ) {
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
                    let older = protocol::older_whole(
                        &objects,
                        self.world.partitions as u32,
                        RunNumber(run.into()),
                    );
                    older.map(|run| run.0 as usize - 1)
                };
                self.older.insert(key, older);
                older
            }
        };
        older.map_or(0, |older| state.objects[older][slot])
    }

    /// All states that may come next.
    pub(crate) fn next(&mut self, state: &State) -> Result<Vec<State>, String> {
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
                let results: Vec<Content> = driver.sessions[..wanted]
                    .iter()
                    .filter_map(acknowledged)
                    .collect();
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
                    (0..self.slots()).for_each(|slot| {
                        next.drivers[d].early[slot] = self.older_content(state, run, slot)
                    });
                }
                self.read_claims(&mut next, d);
            }
            out.push(next);
        }
    }

    fn read_claims(&self, state: &mut State, d: usize) {
        let claims: Vec<Claim> = (0..state.claimed)
            .map(|i| claim(i, state.claims[usize::from(i)]))
            .collect();
        state.drivers[d].phase =
            match protocol::next_claim(&claims, &d.to_string(), Epoch(5), state.committed) {
                ClaimStep::Put(number) => Phase::Claiming(number.0 as u8 - 1),
                ClaimStep::Refused { .. } => Phase::Dead,
                ClaimStep::Known(_) => unreachable!("a driver claims once"),
            };
    }

    fn session(
        &mut self,
        state: &State,
        d: usize,
        slot: usize,
        attempt: usize,
        out: &mut Vec<State>,
    ) -> Result<(), String> {
        let driver = state.drivers[d];
        let run = driver.run;
        let mut to = |session: Session| {
            let mut next = *state;
            let db = &mut next.drivers[d].sessions[slot];
            db[attempt] = session;
            if let Session::Acknowledged(_) = session {
                // Its twins can do no more than adopt.
                *db = [session, Session::Idle];
            }
            db.sort_unstable_by(|a, b| b.cmp(a));
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
                    if older == 0 {
                        to(Session::Listed(*result));
                        continue;
                    }
                    match protocol::replay_step(
                        &summary(older),
                        &summary(*result),
                        self.world.guarantee,
                    ) {
                        ReplayStep::Own => to(Session::Listed(*result)),
                        ReplayStep::Copy => to(Session::Listed(older)),
                        ReplayStep::NotReproduced => {
                            self.refused("an older whole run is not reproduced")?
                        }
                    }
                }
            }
            Session::Listed(mine) => {
                let there = state.objects[usize::from(run) - 1][slot];
                let first = (there != 0).then(|| summary(there));
                match protocol::stage_step(first.as_ref(), &summary(mine), self.world.guarantee) {
                    StageStep::Write => {
                        let mut next = *state;
                        next.objects[usize::from(run) - 1][slot] = mine;
                        next.drivers[d].sessions[slot][attempt] = Session::Put(mine);
                        next.drivers[d].sessions[slot].sort_unstable_by(|a, b| b.cmp(a));
                        out.push(next);
                    }
                    StageStep::Adopt => to(Session::Put(mine)),
                    StageStep::Mismatch { .. } if self.world.broken == Broken::AdoptUnseen => {
                        to(Session::Put(mine))
                    }
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

    /// With repeatable results, and under at-least-once, nothing but the fence may stop a session.
    fn refused(&self, why: &str) -> Result<(), String> {
        if self.world.repeatable || self.world.guarantee == AtLeastOnce {
            Err(format!("false alarm: {why}"))
        } else {
            Ok(())
        }
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
            let to = if whole {
                &mut next.given[slot]
            } else {
                &mut next.drivers[d].partial[slot]
            };
            *to |= result;
        }
        next.whole |= whole;
        next
    }
}

/// Which objects are there, as bits: all that decisions depend on, but for contents.
fn presence(state: &State) -> u32 {
    state
        .objects
        .iter()
        .flatten()
        .fold(0, |bits, content| bits << 1 | u32::from(*content != 0))
}

fn acknowledged(sessions: &[Session; TWINS]) -> Option<Content> {
    sessions.iter().find_map(|session| {
        if let Session::Acknowledged(content) = session {
            Some(*content)
        } else {
            None
        }
    })
}

fn summary(content: Content) -> HeadSummary {
    HeadSummary {
        base: Digest::ZERO,
        digest: Digest([content; 16]),
        input: Digest::ZERO,
        input_rows: 1,
    }
}

fn claim(index: u8, driver: u8) -> Claim {
    let number = RunNumber(u64::from(index) + 1);
    Claim {
        number,
        run_id: driver.to_string(),
        first_epoch: Epoch(5),
        query_id: "q".into(),
    }
}

/// Partitions of an operator are alike, and so are operators, unless a plan evaluates the first
/// partition alone.
fn orders(world: &World) -> Vec<[usize; SLOTS]> {
    let take = world.plans.iter().any(|plan| plan.contains(&false));
    match (take, world.operators, world.partitions) {
        (true, ..) => vec![[0, 1, 2, 3]],
        (false, 1, 2) | (false, 2, 1) => vec![[0, 1, 2, 3], [1, 0, 2, 3]],
        (false, 2, 2) => {
            let first = [[0, 1], [1, 0]];
            let both = first
                .iter()
                .flat_map(|a| first.iter().map(move |b| [a[0], a[1], b[0] + 2, b[1] + 2]));
            both.flat_map(|[a, b, c, d]| [[a, b, c, d], [c, d, a, b]])
                .collect()
        }
        _ => unreachable!("a world that is not in the list"),
    }
}
