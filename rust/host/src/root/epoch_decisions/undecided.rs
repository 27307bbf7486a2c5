//! The result of an epoch, for readers. Readers never record a decision.

use holdfast_core::Result;

use super::EpochDecisions;
use super::deciding::Headers;
use crate::log::HeadHeader;
use crate::protocol::{Decision, Epoch, EpochDecision, ObjectId, reproduces};

impl EpochDecisions {
    /// Returns the decision of an epoch that Spark has committed, without recording one.
    ///
    /// If none is recorded, the epoch's objects decide, provided that the objects of all runs have
    /// the same results: then no late object changes the decision. None if the objects differ, are
    /// incomplete or are missing: then only a session can decide, or report an error.
    ///
    /// # Errors
    /// `Restore` for an object that is damaged, `StateMismatch` if the objects name different
    /// offsets, `Io` if the disk fails.
    pub fn seen(&self, epoch: Epoch, partitions: u32) -> Result<Option<EpochDecision>> {
        let rewinds = self.log.marks().read()?;
        let rewind = rewinds.newest_of(epoch);
        if let Some(decision) = self.recorded_after(epoch, rewind)? {
            return Ok(Some(decision));
        }
        let objects = self.log.files_after(epoch, &rewinds)?.heads;
        let mut headers = Headers::new(self, epoch);
        // All at once: one by one, each read would wait for an answer of the object store.
        headers.read(&objects)?;
        let Decision::Run(run) = headers.decide(&objects, partitions)? else {
            return Ok(None);
        };
        for object in &objects {
            let decided = ObjectId {
                run,
                ..object.clone()
            };
            let ours = headers.get(&decided)?.map(HeadHeader::summary);
            let theirs = headers.get(object)?.map(HeadHeader::summary);
            if !matches!((ours, theirs), (Some(ours), Some(theirs)) if reproduces(&ours, &theirs)) {
                return Ok(None);
            }
        }
        let decided = headers.decided(&objects, run)?;
        Ok(Some(decided.decision(epoch, rewind, run)))
    }
}
