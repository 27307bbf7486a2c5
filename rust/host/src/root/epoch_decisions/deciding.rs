//! Decides an epoch by its objects.

use std::collections::BTreeMap;

use holdfast_core::{Error, Result};

use super::skipping::Gap;
use super::{DecisionAsker, EpochDecisions};
use crate::log::HeadHeader;
use crate::protocol::{
    self, Decision, Digest, Epoch, EpochDecision, ObjectId, OffsetsDifference, OperatorName,
    PartitionDecision, PartitionId, RunNumber, Violation,
};
use crate::root::names;
use crate::root::rewind_marks::Rewinds;

impl EpochDecisions {
    /// Returns the decision of an epoch that Spark has committed, and records it if this is the
    /// first host that asks.
    ///
    /// Epochs before it in which no operator ran are recorded first.
    ///
    /// # Errors
    /// As [`EpochDecisions::of`].
    pub fn read_or_decide(
        &self,
        asking: DecisionAsker<'_>,
        epoch: Epoch,
        partitions: u32,
    ) -> Result<EpochDecision> {
        if let Some(decision) = self.decide(asking, epoch, partitions)? {
            return Ok(decision);
        }
        if asking.previous.is_staged {
            return Err(self.objects.violation(Violation::LogLost {
                epoch,
                lost: names::epoch(epoch),
            }));
        }
        let (mut next, mut previous) = self.decided_before(asking, epoch, partitions)?;
        let gap = Gap::before(&self.log, &self.objects, epoch)?;
        self.spark.sync_source_logs()?;
        loop {
            let skipped = self.skip(asking, next, previous.as_ref(), (&gap, partitions))?;
            if next == epoch {
                return Ok(skipped);
            }
            previous = Some(skipped);
            next = next.next();
        }
    }

    /// Returns the newest decision before an epoch, and the first epoch after it. Without such a
    /// decision, that is the first epoch of the log, or this one.
    fn decided_before(
        &self,
        asking: DecisionAsker<'_>,
        epoch: Epoch,
        partitions: u32,
    ) -> Result<(Epoch, Option<EpochDecision>)> {
        let mut earlier = self.log.epochs()?;
        earlier.retain(|other| *other < epoch);
        earlier.sort_unstable();
        // An interrupted rewind leaves folders of epochs without objects in force.
        for other in earlier.iter().rev() {
            if let Some(decision) = self.decide(asking, *other, partitions)? {
                // No session has compared these offsets: none has run since that epoch.
                self.check_offsets_if_any(*other, decision.offsets)?;
                return Ok((other.next(), Some(decision)));
            }
        }
        let first = earlier.first().copied().unwrap_or(epoch);
        self.check_none_has_begun(first)?;
        Ok((first, None))
    }

    /// Reads the decision of an epoch, or decides by its objects; none if there are no objects.
    pub(super) fn decide(
        &self,
        asking: DecisionAsker<'_>,
        epoch: Epoch,
        partitions: u32,
    ) -> Result<Option<EpochDecision>> {
        loop {
            let rewinds = self.rewind_of(asking, epoch)?;
            let rewind = rewinds.newest_of(epoch);
            if let Some(decision) = self.recorded_after(epoch, rewind)? {
                if decision.run.is_some() {
                    return Ok(Some(decision));
                }
                // A skipped epoch has only this record. The host that put it may have been killed
                // before it synced the name.
                match self.objects.sync_names(&names::decision(epoch, rewind)) {
                    // Another host has trimmed the log since.
                    Err(_) if self.recorded_after(epoch, rewind)?.is_none() => continue,
                    synced => return synced.map(|()| Some(decision)),
                }
            }
            let objects = self.log.files_after(epoch, &rewinds)?.heads;
            let mut headers = Headers::new(self, epoch);
            let run = match headers.decide(&objects, partitions)? {
                Decision::Nothing => return Ok(None),
                Decision::Partial { run, missing } => {
                    // Another host may have decided before a stale task put its object.
                    if let Some(decision) = self.recorded_after(epoch, rewind)? {
                        return Ok(Some(decision));
                    }
                    return Err(self.incomplete(&objects, epoch, run, missing));
                }
                Decision::Run(run) => run,
            };
            let decision = headers.decided(&objects, run)?.decision(epoch, rewind, run);
            self.check_offsets_if_any(epoch, decision.offsets)?;
            if let Some(decision) = self.record(decision)? {
                return Ok(Some(decision));
            }
        }
    }

    /// Checks Spark's offsets of an epoch, unless Spark has removed the file because it is old.
    fn check_offsets_if_any(&self, epoch: Epoch, recorded: Digest) -> Result<()> {
        match self.spark.offsets(epoch)? {
            Some(file) => self.check_offsets(epoch, recorded, Some(file.digest)),
            None => Ok(()),
        }
    }

    /// Reads the rewinds for the decision of an epoch.
    ///
    /// # Errors
    /// `Fenced` if a rewind took the epoch back after the asking run began. The commit that the run
    /// read is then no longer valid: a newer run may be computing the epoch again.
    pub(super) fn rewind_of(&self, asking: DecisionAsker<'_>, epoch: Epoch) -> Result<Rewinds> {
        let rewinds = self.log.marks().read()?;
        if let Some(run) = asking.run
            && rewinds.newest_of(epoch) > run
        {
            self.log.marks().fence(run)?;
        }
        Ok(rewinds)
    }

    /// Checks that no operator began in this epoch or before it.
    ///
    /// Called if the log has no earlier epoch.
    fn check_none_has_begun(&self, epoch: Epoch) -> Result<()> {
        for operator in self.operators.names()? {
            if self.operators.first_epoch(&operator)? <= epoch {
                return Err(self
                    .objects
                    .violation(Violation::NotEvaluated { epoch, operator }));
            }
        }
        Ok(())
    }

    /// Returns the error for an incomplete epoch: it was evaluated in part, or its objects were
    /// lost.
    fn incomplete(
        &self,
        objects: &[ObjectId],
        epoch: Epoch,
        run: RunNumber,
        missing: Vec<(OperatorName, PartitionId)>,
    ) -> Error {
        let lost = match missing.first() {
            Some((operator, partition)) => names::head(
                epoch,
                &ObjectId {
                    operator: operator.clone(),
                    partition: *partition,
                    run,
                },
            ),
            None => format!("{}/*.{run}", names::epoch(epoch)),
        };
        match self.log.has_later(epoch, |operator| {
            objects.iter().any(|object| object.operator == *operator)
        }) {
            Ok(true) => self.objects.violation(Violation::LogLost { epoch, lost }),
            Ok(false) => self.objects.violation(Violation::EvaluatedInPart {
                epoch,
                run,
                missing,
            }),
            Err(error) => error,
        }
    }
}

/// What the headers of the deciding run's objects contain.
pub(super) struct DecidedObjects {
    offsets: Digest,
    sources_idle_since: Option<i64>,
    operators: BTreeMap<OperatorName, Vec<PartitionDecision>>,
}

impl DecidedObjects {
    /// Returns the decision of an epoch with these objects.
    pub(super) fn decision(self, epoch: Epoch, rewind: RunNumber, run: RunNumber) -> EpochDecision {
        EpochDecision {
            epoch,
            rewind,
            run: Some(run),
            offsets: self.offsets,
            sources_idle_since: self.sources_idle_since,
            operators: self.operators,
        }
    }
}

/// The headers of an epoch's heads, each read once.
pub(super) struct Headers<'a> {
    decisions: &'a EpochDecisions,
    epoch: Epoch,
    read: BTreeMap<ObjectId, Option<HeadHeader>>,
}

impl<'a> Headers<'a> {
    pub(super) fn new(decisions: &'a EpochDecisions, epoch: Epoch) -> Self {
        Self {
            decisions,
            epoch,
            read: BTreeMap::new(),
        }
    }

    pub(super) fn read(&mut self, objects: &[ObjectId]) -> Result<()> {
        let mut unread = objects.to_vec();
        unread.retain(|object| !self.read.contains_key(object));
        let headers = self.decisions.log.headers(self.epoch, &unread)?;
        self.read.extend(unread.into_iter().zip(headers));
        Ok(())
    }

    pub(super) fn get(&mut self, object: &ObjectId) -> Result<Option<&HeadHeader>> {
        self.read(std::slice::from_ref(object))?;
        Ok(self.read.get(object).and_then(Option::as_ref))
    }

    /// Decides the epoch by its objects.
    pub(super) fn decide(&mut self, objects: &[ObjectId], partitions: u32) -> Result<Decision> {
        protocol::decide(objects, partitions, |object| {
            Ok(self.get(object)?.map(HeadHeader::summary))
        })
    }

    /// Returns what the headers of the deciding run's objects contain.
    pub(super) fn decided(
        &mut self,
        objects: &[ObjectId],
        run: RunNumber,
    ) -> Result<DecidedObjects> {
        let mut decided: Vec<ObjectId> = objects
            .iter()
            .filter(|object| object.run == run)
            .cloned()
            .collect();
        // By operator, then by partition.
        decided.sort_unstable();
        self.read(&decided)?;
        let mut offsets = Digest::ZERO;
        let mut sources_idle_since = None;
        let mut operators: BTreeMap<OperatorName, Vec<PartitionDecision>> = BTreeMap::new();
        for object in decided {
            let header = self.read.get(&object).and_then(Option::as_ref);
            let header = header.ok_or_else(|| {
                self.decisions.objects.violation(Violation::ObjectMissing {
                    object: object.clone(),
                    epoch: self.epoch,
                })
            })?;
            if operators.is_empty() {
                offsets = header.offsets;
                sources_idle_since = header.sources_idle_since;
            }
            if header.offsets != offsets {
                return Err(self.decisions.objects.violation(Violation::OffsetsChanged {
                    epoch: self.epoch,
                    difference: OffsetsDifference::Content {
                        recorded: offsets,
                        file: Some(header.offsets),
                    },
                }));
            }
            operators
                .entry(object.operator)
                .or_default()
                .push(header.decision());
        }
        Ok(DecidedObjects {
            offsets,
            sources_idle_since,
            operators,
        })
    }
}
