//! A world of the model, and what the protocol decides in its states.

use std::collections::HashMap;

use holdfast_host::protocol::{
    self, Claim, Decision, Digest, Epoch, HeadSummary, ObjectId, OperatorName, PartitionId,
    RunNumber,
};

use crate::state::{Broken, Content, RUNS, SLOTS, State, World};

type Memo = HashMap<u32, Option<usize>>;

pub(crate) struct Model {
    pub(crate) world: World,
    objects: Vec<Vec<ObjectId>>,
    pub(crate) claims: Vec<Vec<Claim>>,
    /// Orders of the slots that are equivalent.
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

    /// The run (from 0) that decides by the presence of objects alone.
    fn decide(&self, objects: Vec<ObjectId>) -> Option<usize> {
        let partitions = self.world.partitions as u32;
        let alone = |run: &RunNumber| {
            let one: Vec<_> = objects
                .iter()
                .filter(|object| object.run == *run)
                .cloned()
                .collect();
            protocol::highest_whole(&one, partitions) == Decision::Run(*run)
        };
        let mut runs = (1..=RUNS as u64).map(RunNumber);
        let run = match (
            self.world.broken,
            protocol::highest_whole(&objects, partitions),
        ) {
            (Broken::LowestWholeDecides, _) => runs.find(alone)?,
            (Broken::ForgetsOperators, _) => runs.rfind(alone)?,
            (_, Decision::Run(run)) => run,
            (_, Decision::Partial { .. } | Decision::Nothing) => return None,
        };
        Some(run.0 as usize - 1)
    }

    /// The run (from 0) that decides; none if no run does.
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
        if !higher || self.world.broken == Broken::ForgetsOperators {
            return Some(run);
        }
        let decision = protocol::decide(
            &self.listing(state),
            self.world.partitions as u32,
            |object| Ok::<_, ()>(self.summary_of(state, object)),
        );
        (decision == Ok(Decision::Run(RunNumber(run as u64 + 1)))).then_some(run)
    }

    fn summary_of(&self, state: &State, object: &ObjectId) -> Option<HeadSummary> {
        let run = object.run.0 as usize - 1;
        let slot = self.objects[run].iter().position(|other| other == object)?;
        let content = state.objects[run][slot];
        (content != 0).then(|| summary(content))
    }

    /// The content of an older whole run in a slot.
    pub(crate) fn older_content(&mut self, state: &State, run: u8, slot: usize) -> Content {
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
}

/// The presence of objects, as bits: decisions depend on it and on contents only.
fn presence(state: &State) -> u32 {
    state
        .objects
        .iter()
        .flatten()
        .fold(0, |bits, content| bits << 1 | u32::from(*content != 0))
}

pub(crate) fn summary(content: Content) -> HeadSummary {
    HeadSummary {
        base: Digest::ZERO,
        digest: Digest([content; 16]),
        input: Digest::ZERO,
        input_rows: 1,
        offsets: Digest::ZERO,
    }
}

pub(crate) fn claim(index: u8, driver: u8) -> Claim {
    let number = RunNumber(u64::from(index) + 1);
    Claim {
        number,
        run_id: driver.to_string(),
        first_epoch: Epoch(5),
        query_id: "q".into(),
    }
}

/// Partitions of an operator are equivalent, and so are operators, unless a plan evaluates only
/// the first partition, or only the job of the second operator outlives its function.
fn orders(world: &World) -> Vec<[usize; SLOTS]> {
    let differ = world.outlives || world.plans.iter().any(|plan| plan.contains(&false));
    match (differ, world.operators, world.partitions) {
        (true, ..) => vec![[0, 1, 2, 3]],
        (false, 1, 1) => vec![[0, 1, 2, 3]],
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
