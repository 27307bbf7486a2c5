//! What hosts decide and record, and the invariants of the states that they restore.

use holdfast_host::protocol::{
    self, Decision, Digest, Epoch, EpochDecision, PartitionId, RunNumber,
};

use crate::state::{EpochState, Object, Record, Rule, State, offsets_digest, operator};
use crate::steps::Model;

impl Model {
    /// Decides all epochs before this one and returns the chain; none if a host returns an error.
    /// An `Err` names a broken invariant.
    pub(crate) fn state_before(
        &self,
        state: &mut State,
        epoch: usize,
    ) -> Result<Option<Digest>, String> {
        let (mut chain, mut records) = (Digest::ZERO, Vec::new());
        for before in 0..epoch {
            let Some(record) = self.read_or_decide(state, before) else {
                return Ok(None);
            };
            // A host does not apply a decision that was made on another state.
            if record.base != chain {
                return Ok(None);
            }
            let changed = record.offsets != state.epochs[before].offsets;
            if changed && before + 1 == epoch && self.has(Rule::OffsetsOfDecidedEpochs) {
                return Ok(None);
            }
            chain = record.chain();
            records.push(record);
        }
        for (before, record) in records.iter().enumerate() {
            check_open(state, before, record)?;
            state.epochs[before].held = Some(record.digest);
        }
        Ok(Some(chain))
    }

    fn read_or_decide(&self, state: &mut State, epoch: usize) -> Option<Record> {
        if let Some(record) = self.recorded(state, epoch) {
            return Some(record);
        }
        let record = self.decide(state, epoch)?;
        state.epochs[epoch].records.push(record.clone());
        Some(record)
    }

    /// The run of the newest rewind that covers an epoch; 0 if there is none.
    pub(crate) fn rewind_of(&self, state: &State, epoch: usize) -> u64 {
        let covering = state.rewind.filter(|(_, from)| epoch >= *from);
        match covering {
            Some((run, _)) if self.has(Rule::RecordAfterRewind) => run,
            _ => 0,
        }
    }

    pub(crate) fn recorded(&self, state: &State, epoch: usize) -> Option<Record> {
        let rewind = self.rewind_of(state, epoch);
        let mut records = state.epochs[epoch].records.iter();
        records.find(|record| record.rewind == rewind).cloned()
    }

    /// Decides an epoch by its objects; none for an error.
    pub(crate) fn decide(&self, state: &State, epoch: usize) -> Option<Record> {
        let in_force: Vec<&Object> = state.epochs[epoch]
            .objects
            .iter()
            .filter(|object| {
                !state
                    .rewind
                    .is_some_and(|(run, from)| object.run < run && epoch >= from)
            })
            .collect();
        let ids: Vec<_> = in_force.iter().map(|object| object.id()).collect();
        let find = |run: RunNumber| in_force.iter().find(|object| object.run == run.0);
        let decision = protocol::decide(&ids, 1, |id| {
            Ok::<_, ()>(find(id.run).map(|object| object.summary()))
        });
        let rewind = self.rewind_of(state, epoch);
        match decision {
            Ok(Decision::Run(run)) => find(run)
                .filter(|object| {
                    object.file == state.epochs[epoch].offsets
                        || !self.has(Rule::OffsetsOfDecidedEpochs)
                })
                .map(|object| Record {
                    rewind,
                    run: Some(run.0),
                    offsets: object.file,
                    base: object.base,
                    digest: object.digest(),
                    planned: object.planned,
                    late: object.late,
                }),
            Ok(Decision::Nothing) => self.skip(state, epoch, rewind),
            Ok(Decision::Partial { .. }) | Err(()) => None,
        }
    }

    fn skip(&self, state: &State, epoch: usize, rewind: u64) -> Option<Record> {
        let has_later = state.epochs[epoch + 1..]
            .iter()
            .any(|later| !later.objects.is_empty() || !later.records.is_empty());
        if has_later && self.has(Rule::LaterEpochsNeedThisOne) {
            return None;
        }
        let previous = match epoch.checked_sub(1) {
            Some(before) => {
                let record = self.recorded(state, before)?;
                let changed = record.offsets != state.epochs[before].offsets;
                if changed && self.has(Rule::OffsetsOfDecidedEpochs) {
                    return None;
                }
                Some(record.decision(before))
            }
            None => None,
        };
        let offsets = state.epochs[epoch].offsets;
        let skipped = EpochDecision::skipped(
            Epoch(epoch as i64),
            RunNumber(rewind),
            offsets_digest(offsets),
            previous.as_ref(),
        );
        let (base, digest) = match skipped.of(&operator(), PartitionId(0)) {
            Some(partition) => (partition.base, partition.digest),
            // The operator has not begun; the model gives it a part of the chain.
            None => (Digest::ZERO, Digest::of(b"not begun")),
        };
        Some(Record {
            rewind,
            run: None,
            offsets,
            base,
            digest,
            planned: 0,
            late: false,
        })
    }
}

/// Checks the invariants of a session that opens on a state with this decision of an epoch.
fn check_open(state: &State, epoch: usize, record: &Record) -> Result<(), String> {
    let EpochState {
        offsets,
        given,
        held,
        lost,
        ..
    } = &state.epochs[epoch];
    if held.is_some_and(|held| held != record.digest) {
        return Err(format!("epoch {epoch} was decided otherwise before"));
    }
    if *lost && record.run.is_none() {
        return Err(format!(
            "epoch {epoch} was lost, and a session opened without it"
        ));
    }
    if record.late {
        return Err(format!(
            "epoch {epoch} is an object whose session found Spark's commit"
        ));
    }
    if given.iter().any(|given| *given != record.digest) {
        return Err(format!(
            "the sink was given something else in epoch {epoch}"
        ));
    }
    if record.planned != 0 && record.planned != *offsets {
        return Err(format!(
            "epoch {epoch} was computed from other offsets than Spark's"
        ));
    }
    Ok(())
}
