//! The steps that drivers, hosts and operators of the query may take.

use holdfast_core::ProcessingGuarantee::ExactlyOnce;
use holdfast_host::protocol::{
    self, Claim, Epoch, OpenFacts, OpenStep, PartitionId, PlannedBatch, ReplayStep, RunNumber,
};

use crate::state::{
    DRIVERS, Driver, EPOCHS, Fault, MAX_RUNS, Object, Phase, Rule, State, Variant, operator,
};

pub(crate) struct Model {
    pub(crate) without: Option<Rule>,
}

impl Model {
    /// Returns all states that can follow.
    pub(crate) fn next(&self, state: &State) -> Result<Vec<State>, String> {
        let mut out = Vec::new();
        for d in 0..DRIVERS {
            self.drive(state, d, &mut out)?;
        }
        self.host(state, &mut out);
        administrate(state, &mut out);
        Ok(out)
    }

    pub(crate) fn has(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }

    fn drive(&self, state: &State, d: usize, out: &mut Vec<State>) -> Result<(), String> {
        let driver = &state.drivers[d];
        let mut to = |change: &dyn Fn(&mut State)| {
            let mut next = state.clone();
            change(&mut next);
            out.push(next);
        };
        if driver.phase != Phase::Dead {
            to(&|next| next.drivers[d] = Driver::default());
        }
        let epoch = driver.epoch;
        match &driver.phase {
            Phase::Dead => start(state, d, out),
            Phase::Wrote if state.epochs[epoch].committed || state.runs == MAX_RUNS => {}
            Phase::Wrote => to(&|next| {
                next.runs += 1;
                next.drivers[d].run = next.runs;
                next.drivers[d].phase = Phase::Planned;
            }),
            Phase::Planned => {
                // `foreachBatch` returns early: no operator runs.
                to(&|next| next.drivers[d].phase = Phase::Staged(None));
                if let Some(next) = self.open(state, d)? {
                    out.push(next);
                }
            }
            Phase::Open(base, file) => {
                // It may read Spark's commit log before the commit, and put its object afterwards.
                let committed = state.epochs[epoch].committed;
                for (result, late) in [(1, false), (2, false), (1, true), (2, true)] {
                    let object = Object {
                        run: driver.run,
                        planned: driver.planned,
                        file: *file,
                        result,
                        base: *base,
                        late,
                    };
                    if committed || !late {
                        out.extend(self.stage(state, d, object));
                    }
                }
            }
            Phase::Staged(staged) => to(&|next| {
                next.drivers[d].phase = Phase::Delivered;
                let given = &mut next.epochs[epoch].given;
                given.extend(staged.filter(|staged| !given.contains(staged)));
                given.sort_unstable();
            }),
            Phase::Delivered if state.epochs[epoch].committed || epoch + 1 == EPOCHS => {}
            Phase::Delivered => to(&|next| {
                next.epochs[epoch].committed = true;
                let offsets = &mut next.epochs[epoch + 1].offsets;
                if *offsets == 0 {
                    *offsets = 1;
                }
                let planned = *offsets;
                next.drivers[d] = Driver {
                    phase: Phase::Planned,
                    epoch: epoch + 1,
                    planned,
                    ..next.drivers[d].clone()
                };
            }),
        }
        Ok(())
    }

    /// A session opens: the epoch before is decided, and the state holds it.
    fn open(&self, state: &State, d: usize) -> Result<Option<State>, String> {
        let Driver { epoch, planned, .. } = state.drivers[d];
        let file = state.epochs[epoch].offsets;
        let plan = self.has(Rule::PlannedAt).then_some(i64::from(planned));
        let step = protocol::open_step(&OpenFacts {
            operator: operator(),
            partition: PartitionId(0),
            epoch: Epoch(epoch as i64),
            first_epoch: Epoch(0),
            applied: Epoch(epoch as i64).previous(),
            applied_decided: true,
            previous_committed: epoch == 0 || state.epochs[epoch - 1].committed,
            committed: state.epochs[epoch].committed,
            has_offsets: file != 0,
            planned: PlannedBatch {
                plan,
                file: Some(i64::from(file)),
            },
        });
        if self.fenced(state, d) || step != OpenStep::Ready {
            return Ok(None);
        }
        let mut next = state.clone();
        let Some(base) = self.state_before(&mut next, epoch)? else {
            return Ok(None);
        };
        next.drivers[d].phase = Phase::Open(base, file);
        Ok(Some(next))
    }

    /// Returns the state after a session has staged; none if the session may not stage.
    fn stage(&self, state: &State, d: usize, object: Object) -> Option<State> {
        let (epoch, mine) = (state.drivers[d].epoch, object.summary());
        if self.has(Rule::DecisionStands)
            && let Some(record) = self.recorded(state, epoch)
        {
            let decision = record.decision(epoch);
            let decided = decision.of(&operator(), PartitionId(0));
            let step = protocol::decided_step(decided, decision.offsets, &mine, ExactlyOnce);
            if step != ReplayStep::Own {
                return None;
            }
        }
        let objects = &state.epochs[epoch].objects;
        let in_force = |other: &&Object| {
            !state
                .rewind
                .is_some_and(|(run, from)| other.run < run && epoch >= from)
        };
        let older: Vec<_> = objects.iter().filter(in_force).map(Object::id).collect();
        if self.has(Rule::Reproduction)
            && let Some(older) = protocol::older_whole(&older, 1, RunNumber(object.run))
            && let Some(older) = objects.iter().find(|other| other.run == older.0)
            && protocol::replay_step(&older.summary(), &mine, ExactlyOnce) != ReplayStep::Own
        {
            return None;
        }
        if object.late
            && self.has(Rule::CommitBeforePut)
            && !self.is_in_epoch(state, epoch, &object)
        {
            return None;
        }
        let mut next = state.clone();
        next.epochs[epoch].objects.push(object.clone());
        next.epochs[epoch].objects.sort_unstable();
        // The claims, Spark's commit and the decision are read after the put.
        next.drivers[d].phase = if self.fenced(state, d) || !self.is_in_epoch(&next, epoch, &object)
        {
            Phase::Dead
        } else {
            Phase::Staged(Some(object.digest()))
        };
        Some(next)
    }

    /// Whether Spark has not committed the epoch, or its decision names the object.
    fn is_in_epoch(&self, state: &State, epoch: usize, object: &Object) -> bool {
        let record = self.recorded(state, epoch);
        let decision = record.map(|record| record.decision(epoch));
        let decided = decision
            .as_ref()
            .and_then(|decision| decision.of(&operator(), PartitionId(0)));
        protocol::may_stage(state.epochs[epoch].committed, decided, object.digest())
    }

    fn fenced(&self, state: &State, d: usize) -> bool {
        let claims: Vec<Claim> = (1..=state.runs)
            .map(|run| Claim {
                number: RunNumber(run),
                run_id: run.to_string(),
                first_epoch: Epoch(0),
                query_id: "q".into(),
            })
            .collect();
        let mine = RunNumber(state.drivers[d].run);
        self.has(Rule::Fence) && protocol::fence(mine, &claims).is_err()
    }

    /// A host decides a committed epoch in two steps. It uses the decision only if the epoch was
    /// not taken back meanwhile.
    fn host(&self, state: &State, out: &mut Vec<State>) {
        if let Some((epoch, record)) = &state.listed {
            let mut next = state.clone();
            next.listed = None;
            let records = &mut next.epochs[*epoch].records;
            let found = match records.iter().find(|other| other.rewind == record.rewind) {
                Some(other) => other.clone(),
                None => {
                    records.push(record.clone());
                    record.clone()
                }
            };
            if !self.has(Rule::MarksAfterPut) || self.rewind_of(&next, *epoch) == record.rewind {
                next.epochs[*epoch].held.get_or_insert(found.digest);
            }
            out.push(next);
            return;
        }
        for epoch in 0..EPOCHS {
            if state.epochs[epoch].committed
                && self.recorded(state, epoch).is_none()
                && let Some(record) = self.decide(state, epoch)
            {
                let mut next = state.clone();
                next.listed = Some((epoch, record));
                out.push(next);
            }
        }
    }
}

/// A driver starts: it reads the offsets of its epoch, or writes them.
fn start(state: &State, d: usize, out: &mut Vec<State>) {
    let epoch = state
        .epochs
        .iter()
        .take_while(|epoch| epoch.committed)
        .count();
    if state.runs == MAX_RUNS || epoch == EPOCHS {
        return;
    }
    let file = state.epochs[epoch].offsets;
    let mut with = |planned: Variant| {
        let mut next = state.clone();
        if file != 0 && file != planned {
            next.fault = Some(Fault::OffsetsOverwritten);
        }
        next.epochs[epoch].offsets = planned;
        next.drivers[d] = Driver {
            phase: Phase::Wrote,
            run: 0,
            epoch,
            planned,
        };
        out.push(next);
    };
    if file != 0 {
        with(file);
    }
    // This driver read before the other driver wrote, so it overwrites the other one's offsets.
    let rival = |driver: &Driver| driver.phase != Phase::Dead && driver.epoch == epoch;
    if file == 0 || (is_intact(state) && state.drivers.iter().any(rival)) {
        (1..=2)
            .filter(|planned| *planned != file)
            .for_each(&mut with);
    }
}

/// Whether a rewind or a fault may happen: only one does, or there would be too many states.
fn is_intact(state: &State) -> bool {
    state.fault.is_none() && state.rewind.is_none()
}

/// What happens to the query from outside.
fn administrate(state: &State, out: &mut Vec<State>) {
    let committed = state
        .epochs
        .iter()
        .take_while(|epoch| epoch.committed)
        .count();
    let all_dead = state
        .drivers
        .iter()
        .all(|driver| driver.phase == Phase::Dead);
    let is_intact = is_intact(state);
    if is_intact && committed > 0 && all_dead {
        let mut next = state.clone();
        next.fault = Some(Fault::CommitLost);
        // The host syncs the commit before it records a decision. So if a loss of power takes the
        // commit, a decision that is not yet recorded is lost, too.
        next.listed = None;
        next.epochs[committed - 1].committed = false;
        out.push(next);
    }
    if is_intact && committed > 0 && all_dead {
        for epoch in 0..committed {
            let has_later = state.epochs[epoch + 1..]
                .iter()
                .any(|later| !later.objects.is_empty());
            if has_later && !state.epochs[epoch].objects.is_empty() {
                let mut next = state.clone();
                next.fault = Some(Fault::FolderLost);
                next.listed = None;
                next.epochs[epoch].objects.clear();
                next.epochs[epoch].records.clear();
                next.epochs[epoch].lost = true;
                out.push(next);
            }
        }
    }
    if is_intact && state.runs < MAX_RUNS {
        for epoch in 0..committed {
            // The command checks that the state before the epoch can be restored.
            if state.epochs[..epoch].iter().any(|before| before.lost) {
                continue;
            }
            let mut next = state.clone();
            next.runs += 1;
            next.rewind = Some((next.runs, epoch));
            // The query is stopped. A task may still run, and put its object late.
            for driver in &mut next.drivers {
                if !matches!(driver.phase, Phase::Open(..)) {
                    *driver = Driver::default();
                }
            }
            for (taken, taken_back) in next.epochs.iter_mut().enumerate().skip(epoch) {
                taken_back.committed = false;
                taken_back.objects.clear();
                taken_back.records.clear();
                taken_back.given.clear();
                taken_back.held = None;
                taken_back.lost = false;
                if taken > epoch {
                    taken_back.offsets = 0;
                }
            }
            out.push(next);
        }
    }
}
