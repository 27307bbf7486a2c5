//! Verifies `log/`: heads, chunks, decisions, and the chains over all epochs.

use std::collections::HashMap;

use holdfast_core::Result;

use super::walk::VerificationWalk;
use crate::log::HeadHeader;
use crate::protocol::{Epoch, EpochDecision, ObjectId, PartitionId};
use crate::root::names;
use crate::root::rewind_marks::Rewinds;

/// A verified epoch, with which the next one is compared.
struct VerifiedEpoch {
    epoch: Epoch,
    /// None if the decision is missing or damaged.
    decision: Option<EpochDecision>,
    /// Whether the decision is missing.
    is_undecided: bool,
}

impl VerificationWalk<'_> {
    /// Lists the epochs of the log, in order.
    pub(super) fn listed_epochs(&self) -> Result<Vec<Epoch>> {
        let mut epochs = self.root.log.epochs()?;
        epochs.sort_unstable();
        Ok(epochs)
    }

    /// Checks all objects of these epochs that are in force, and the chains over them.
    pub(super) fn epochs(&mut self, epochs: Vec<Epoch>, rewinds: &Rewinds) -> Result<()> {
        let mut previous: Option<VerifiedEpoch> = None;
        for epoch in epochs {
            let verified = self.epoch(epoch, rewinds)?;
            self.step()?;
            let Some(verified) = verified else {
                continue;
            };
            if let Some(previous) = previous {
                self.follows(&previous, &verified)?;
            }
            previous = Some(verified);
        }
        Ok(())
    }

    /// Checks the objects of an epoch; none if nothing of it is in force.
    fn epoch(&mut self, epoch: Epoch, rewinds: &Rewinds) -> Result<Option<VerifiedEpoch>> {
        let files = self.root.log.files_after(epoch, rewinds)?;
        if files.is_empty() {
            return Ok(None);
        }
        let rewind = rewinds.newest_of(epoch);
        let name = names::decision(epoch, rewind);
        let recorded = self.root.decisions.recorded_after(epoch, rewind);
        let found = self.content(&name, recorded)?;
        let is_undecided = matches!(found, Some(None));
        let mut decision = found.flatten();
        if let Some(other) =
            decision.take_if(|found| (found.epoch, found.rewind) != (epoch, rewind))
        {
            let problem = format!("it holds another decision, of epoch {}", other.epoch);
            self.found(&name, problem);
        }
        let mut headers = HashMap::new();
        for object in &files.heads {
            self.runs.insert(object.run);
            if let Some(header) = self.head(epoch, object)? {
                headers.insert(object.clone(), header);
            }
        }
        if let Some(decision) = &decision {
            self.decided(&name, decision, &files.heads, &headers)?;
        }
        Ok(Some(VerifiedEpoch {
            epoch,
            decision,
            is_undecided,
        }))
    }

    /// Checks a head and the objects that it names; returns the header if the head itself is whole.
    fn head(&mut self, epoch: Epoch, object: &ObjectId) -> Result<Option<HeadHeader>> {
        let (log, name) = (&self.root.log, names::head(epoch, object));
        let read = log.head(epoch, object);
        let Some(head) = self.content(&name, read)?.flatten() else {
            return Ok(None);
        };
        let (header, mut records) = (head.header, head.records.len() as u64);
        let mut is_whole = true;
        for chunk in &header.chunks {
            self.count()?;
            match self.root.log.chunk(&header, chunk) {
                Ok(found) => records += found.len() as u64,
                Err(error) => {
                    is_whole = false;
                    if !self.is_removed(epoch)? {
                        self.found_error(chunk, error)?;
                    }
                }
            }
        }
        if is_whole && records != header.records {
            let expected = header.records;
            let problem = format!("it and its chunks hold {records} records, not {expected}");
            self.found(name, problem);
        }
        if let Some(rows) = &header.far_future {
            let expected = Some(header.counts.ahead);
            self.arrow_file(rows, expected, |walk| walk.is_removed(epoch))?;
        }
        Ok(Some(header))
    }

    /// Checks that an epoch's objects and Spark's offsets are those that the decision names.
    fn decided(
        &mut self,
        name: &str,
        decision: &EpochDecision,
        listed: &[ObjectId],
        headers: &HashMap<ObjectId, HeadHeader>,
    ) -> Result<()> {
        let epoch = decision.epoch;
        if let Some(offsets) = self.root.spark.offsets(epoch)?
            && offsets.digest != decision.offsets
        {
            let file = format!("{}/{epoch}", names::SPARK_OFFSETS);
            let problem = "it was changed after the epoch was decided: restore it from a backup";
            self.found(file, problem);
        }
        let Some(run) = decision.run else {
            return Ok(());
        };
        for (operator, partitions) in &decision.operators {
            for (partition, decided) in (0..).map(PartitionId).zip(partitions) {
                let operator = operator.clone();
                let object = ObjectId {
                    operator,
                    partition,
                    run,
                };
                match headers.get(&object) {
                    Some(header) if header.decision() != *decided => {
                        let object = names::head(epoch, &object);
                        let problem = format!("it is not the object that {name} names");
                        self.found(object, problem);
                    }
                    Some(_) => {}
                    None if listed.contains(&object) || self.is_removed(epoch)? => {}
                    None => self.found(
                        names::head(epoch, &object),
                        "it is missing: restore it from a backup",
                    ),
                }
            }
        }
        Ok(())
    }

    /// Checks that one epoch continues the other.
    fn follows(&mut self, previous: &VerifiedEpoch, next: &VerifiedEpoch) -> Result<()> {
        let expected = previous.epoch.next();
        if next.epoch != expected {
            if !self.is_removed_before(expected)? {
                let problem = "the epoch is missing: restore it from a backup";
                self.found(names::epoch(expected), problem);
            }
            return Ok(());
        }
        if previous.is_undecided
            && self.root.decisions.recorded(previous.epoch)?.is_none()
            && !self.is_removed(previous.epoch)?
        {
            // Before an epoch is staged, the one before it is decided.
            let name = names::decision(
                previous.epoch,
                self.root.log.newest_rewind_of(previous.epoch)?,
            );
            self.found(name, "it is missing, and the next epoch has objects");
        }
        let (Some(before), Some(after)) = (&previous.decision, &next.decision) else {
            return Ok(());
        };
        for (operator, partitions) in &after.operators {
            for (partition, decided) in (0..).map(PartitionId).zip(partitions) {
                let Some(base) = before.of(operator, partition) else {
                    continue;
                };
                if base.chain() != decided.base {
                    let name = names::decision(next.epoch, after.rewind);
                    let epoch = previous.epoch;
                    let problem = format!(
                        "its chain of operator {operator}, partition {partition} does not \
                         continue that of epoch {epoch}"
                    );
                    self.found(name, problem);
                }
            }
        }
        Ok(())
    }

    /// Whether a host is removing an epoch, or has removed it and all earlier ones.
    fn is_removed_before(&self, epoch: Epoch) -> Result<bool> {
        let (trims, rewinds) = (self.root.log.trims()?, self.root.log.marks().read()?);
        if trims.find(epoch, rewinds.newest_of(epoch)).is_some() {
            return Ok(true);
        }
        for older in self.root.log.epochs()? {
            if older < epoch && !self.root.log.files_after(older, &rewinds)?.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
