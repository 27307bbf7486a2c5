//! Reads and puts the record of a decision.

use holdfast_core::Result;

use super::EpochDecisions;
use crate::log;
use crate::protocol::{Epoch, EpochDecision, RunNumber};
use crate::root::names;
use crate::root::objects::PutOutcome;

impl EpochDecisions {
    /// Reads the decision that is in force for an epoch; none if it is not recorded.
    ///
    /// # Errors
    /// `Restore` for a record or a rewind mark that cannot be read, `FormatVersion` for a record of
    /// another version, `Io` if the disk fails.
    pub fn recorded(&self, epoch: Epoch) -> Result<Option<EpochDecision>> {
        let rewind = self.log.marks().read()?.newest_of(epoch);
        self.recorded_after(epoch, rewind)
    }

    /// Reads the decision of an epoch after a rewind; `rewind` is the rewind's run, or 0 for none.
    pub(in crate::root) fn recorded_after(
        &self,
        epoch: Epoch,
        rewind: RunNumber,
    ) -> Result<Option<EpochDecision>> {
        let name = names::decision(epoch, rewind);
        match self.objects.get(&name)? {
            Some(bytes) => log::decode_decision(&self.place(&name), &bytes).map(Some),
            None => Ok(None),
        }
    }

    /// Reads the newest epoch, up to this one, in which an operator ran, with the run that decided
    /// it. None if no operator has run, or if the log no longer has the decisions since then.
    ///
    /// # Errors
    /// As [`EpochDecisions::recorded`].
    pub fn newest_evaluated(&self, epoch: Epoch) -> Result<Option<(RunNumber, Epoch)>> {
        let rewinds = self.log.marks().read()?;
        for epoch in std::iter::successors(Some(epoch), |epoch| epoch.previous()) {
            let Some(decision) = self.recorded_after(epoch, rewinds.newest_of(epoch))? else {
                return Ok(None);
            };
            if let Some(run) = decision.run {
                return Ok(Some((run, epoch)));
            }
        }
        Ok(None)
    }

    /// Puts a decision if there is none, and returns the one that exists then.
    ///
    /// None if a rewind took the epoch back meanwhile: then the decision is not in force.
    pub(super) fn record(&self, decision: EpochDecision) -> Result<Option<EpochDecision>> {
        let (epoch, rewind) = (decision.epoch, decision.rewind);
        let name = names::decision(epoch, rewind);
        // After a loss of power Spark must still hold the commit of an epoch that is decided.
        self.spark.sync_commit(epoch)?;
        let found = match self
            .objects
            .put_absent(&name, &log::encode_decision(&decision)?)?
        {
            PutOutcome::Ours => decision,
            PutOutcome::Other(bytes) => log::decode_decision(&self.place(&name), &bytes)?,
        };
        let now = self.log.marks().read()?.newest_of(epoch);
        Ok((now == rewind).then_some(found))
    }

    fn place(&self, name: &str) -> String {
        self.objects.place(name).display().to_string()
    }
}
