//! The steps that drivers, attempts and hosts may take in a state.

use holdfast_core::ProcessingGuarantee::AtLeastOnce;
use holdfast_host::protocol::{
    self, Claim, ClaimStep, Epoch, PartitionDecision, ReplayStep, RunNumber, StageStep,
};

use crate::model::{Model, claim, summary};
use crate::state::{Broken, Content, Driver, Phase, RUNS, SLOTS, Session, State, TWINS, has_rows};

impl Model {
    /// Returns all states that can follow.
    pub(crate) fn next(&mut self, state: &State) -> Result<Vec<State>, String> {
        let mut out = Vec::new();
        for d in 0..self.world.drivers {
            self.drive(state, d, &mut out)?;
        }
        self.record(state, &mut out);
        Ok(out)
    }

    /// A host that finds Spark's commit lists objects, decides and records, in one step or in two.
    fn record(&mut self, state: &State, out: &mut Vec<State>) {
        let overwrites = self.world.broken == Broken::RecordIsOverwritten;
        if !state.committed || (state.recorded.is_some() && !overwrites) {
            return;
        }
        let mut to = |recorded: [Content; SLOTS]| {
            out.push(State {
                recorded: Some(recorded),
                listed: None,
                ..*state
            });
        };
        state.listed.into_iter().for_each(&mut to);
        let Some(run) = self.decided(state) else {
            return;
        };
        to(state.objects[run]);
        if state.listed.is_none() && state.recorded.is_none() {
            out.push(State {
                listed: Some(state.objects[run]),
                ..*state
            });
        }
    }

    fn drive(&mut self, state: &State, d: usize, out: &mut Vec<State>) -> Result<(), String> {
        let driver = state.drivers[d];
        match driver.phase {
            Phase::NotStarted => self.start(state, d, out),
            Phase::Claiming(seen) => {
                let mut next = *state;
                // Put if absent: the number is free only if no driver has claimed since.
                if state.claimed == seen {
                    next.claims[usize::from(seen)] = d as u8;
                    next.claimed = seen + 1;
                    next.drivers[d].run = seen + 1;
                    next.drivers[d].phase = Phase::Running(0);
                    if self.world.broken != Broken::FirstListingBeforeClaim {
                        next.drivers[d].had = state.has_objects();
                    }
                    out.push(next);
                } else {
                    self.read_claims(&mut next, d);
                    out.push(next);
                }
            }
            Phase::Running(job) => {
                let whole = self.world.plans[usize::from(driver.plan)][usize::from(job)];
                let wanted = match (whole, self.world.outlives) {
                    (true, true) => self.world.partitions,
                    (true, false) => self.slots(),
                    (false, _) => 1,
                };
                for slot in 0..wanted.max(self.outliving().end) {
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
        if !matches!(driver.phase, Phase::Running(_)) {
            for slot in 0..self.slots() {
                for attempt in 0..self.world.twins {
                    if driver.sessions[slot][attempt].is_publishing() {
                        self.session(state, d, slot, attempt, out)?;
                    }
                }
            }
        }
        if matches!(driver.phase, Phase::Delivered(_) | Phase::Committed) {
            for slot in self.outliving() {
                for attempt in 0..self.world.twins {
                    self.session(state, d, slot, attempt, out)?;
                }
            }
        }
        Ok(())
    }

    /// The slots of a job that `foreachBatch` does not wait for.
    fn outliving(&self) -> std::ops::Range<usize> {
        if self.world.outlives {
            self.world.partitions..self.slots()
        } else {
            0..0
        }
    }

    fn start(&mut self, state: &State, d: usize, out: &mut Vec<State>) {
        // A driver that finds the epoch committed continues with the next one; `check` covers that.
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
                if self.world.broken == Broken::FirstListingBeforeClaim {
                    next.drivers[d].had = state.has_objects();
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
                // Concurrent attempts can only adopt it, or still publish.
                let other = db[1 - attempt];
                *db = match acknowledged(&[other, Session::Idle]) {
                    Some(_) => [other, Session::Idle],
                    None if other.is_publishing() => [session, other],
                    None => [session, Session::Idle],
                };
            }
            db.sort_unstable_by(|a, b| b.cmp(a));
            out.push(next);
        };
        match driver.sessions[slot][attempt] {
            Session::Idle if acknowledged(&driver.sessions[slot]).is_none() => {
                let older = match self.world.broken {
                    Broken::ListBeforeClaim => driver.early[slot],
                    Broken::NoReproduction => 0,
                    // On another host of the run, the first listing may come later and find
                    // objects. Its attempts then have some of these results, and no others.
                    _ if !driver.had => 0,
                    _ => self.older_content(state, run, slot),
                };
                let results: &[Content] = if self.world.repeatable { &[1] } else { &[1, 2] };
                let listed = if state.committed {
                    Session::ListedLate
                } else {
                    Session::Listed
                };
                for result in results {
                    if older == 0 {
                        to(listed(*result));
                        continue;
                    }
                    match protocol::replay_step(
                        &summary(older),
                        &summary(*result),
                        self.world.guarantee,
                    ) {
                        ReplayStep::Own => to(listed(*result)),
                        ReplayStep::Copy => to(listed(older)),
                        ReplayStep::NotReproduced | ReplayStep::OffsetsChanged => {
                            self.refused("an older whole run is not reproduced")?
                        }
                    }
                }
            }
            // After Spark's commit the decision must name the object. The session waits for it.
            Session::ListedLate(mine)
                if !in_epoch(state, slot, mine)
                    && self.world.broken != Broken::NoCommitCheckBeforePut => {}
            Session::Listed(mine) | Session::ListedLate(mine) => {
                let there = state.objects[usize::from(run) - 1][slot];
                let first = (there != 0).then(|| summary(there));
                match protocol::stage_step(first.as_ref(), &summary(mine), self.world.guarantee) {
                    StageStep::Write => {
                        let mut next = *state;
                        next.objects[usize::from(run) - 1][slot] = mine;
                        if driver.sessions[slot][attempt] == Session::ListedLate(mine) {
                            next.late[slot] |= 1 << (run - 1);
                        }
                        next.drivers[d].sessions[slot][attempt] = Session::Put(mine);
                        next.drivers[d].sessions[slot].sort_unstable_by(|a, b| b.cmp(a));
                        out.push(next);
                    }
                    StageStep::Adopt if self.world.publishes => to(Session::Adopted(mine)),
                    StageStep::Adopt => to(Session::Put(mine)),
                    StageStep::Mismatch { .. } if self.world.broken == Broken::AdoptUnseen => {
                        to(Session::Put(mine))
                    }
                    StageStep::Mismatch { .. } | StageStep::OffsetsChanged => {
                        self.refused("attempts differ")?
                    }
                }
            }
            Session::Put(mine) | Session::Adopted(mine) => {
                let claims = &self.claims[usize::from(state.claimed)];
                let fenced = protocol::fence(RunNumber(run.into()), claims).is_err();
                let ended = !in_epoch(state, slot, mine);
                if (!fenced || self.world.broken == Broken::NoReadAfterPut)
                    && (!ended || self.world.broken == Broken::NoCommitCheck)
                {
                    let is_adopted = driver.sessions[slot][attempt] == Session::Adopted(mine);
                    let had = driver.had && self.world.broken != Broken::LeavesOlderRows;
                    if self.world.publishes && (has_rows(mine) || is_adopted || had) {
                        to(Session::Publishing(mine, newest(state, slot)));
                    } else {
                        to(Session::Acknowledged(mine));
                    }
                }
            }
            Session::Publishing(mine, of) => {
                let content = match self.world.broken {
                    Broken::PublishesOwn => mine,
                    _ => state.objects[usize::from(of) - 1][slot],
                };
                let mut next = *state;
                next.published[slot] = has_rows(content);
                next.drivers[d].sessions[slot][attempt] = Session::Published(mine, of);
                next.drivers[d].sessions[slot].sort_unstable_by(|a, b| b.cmp(a));
                out.push(next);
            }
            Session::Published(mine, of) => {
                let now = newest(state, slot);
                if now != of && self.world.broken != Broken::NoSecondListing {
                    to(Session::Publishing(mine, now));
                } else if matches!(driver.phase, Phase::Running(_)) {
                    to(Session::Acknowledged(mine));
                } else {
                    to(Session::Idle);
                }
            }
            Session::Idle | Session::Acknowledged(_) => {}
        }
        Ok(())
    }

    /// With repeatable results, and under at-least-once, no session may be refused because of its
    /// results.
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
            // The sink's log has the epoch already: the second driver's commit to it fails.
            next.drivers[d].phase = Phase::Dead;
            next.drivers[d].sessions = Default::default();
            return next;
        }
        next.drivers[d].phase = Phase::Delivered(job);
        let outliving = self.outliving();
        (0..SLOTS)
            .filter(|slot| !outliving.contains(slot))
            .for_each(|slot| next.drivers[d].end(slot));
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

impl Driver {
    /// Ends the sessions of a task that is acknowledged. One that is still publishing continues.
    fn end(&mut self, slot: usize) {
        for session in &mut self.sessions[slot] {
            if !session.is_publishing() {
                *session = Session::Idle;
            }
        }
        self.sessions[slot].sort_unstable_by(|a, b| b.cmp(a));
    }
}

/// The newest run with an object.
fn newest(state: &State, slot: usize) -> u8 {
    let run = (0..RUNS).rfind(|run| state.objects[*run][slot] != 0);
    run.map_or(0, |run| run as u8 + 1)
}

/// Whether Spark has not committed the epoch, or the decision names this content.
fn in_epoch(state: &State, slot: usize, mine: Content) -> bool {
    let decided = state.recorded.map(|recorded| PartitionDecision {
        digest: summary(recorded[slot]).digest,
        ..PartitionDecision::default()
    });
    protocol::may_stage(state.committed, decided.as_ref(), summary(mine).digest)
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
