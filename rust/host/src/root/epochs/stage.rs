//! Stages an object, in the order that the protocol requires.

use holdfast_core::{Error, ProcessingGuarantee, Result};

use crate::log::HeadHeader;
use crate::protocol::{
    self, Digest, EpochDecision, ObjectId, OffsetsDifference, ReplayStep, StageStep, Violation,
};
use crate::root::names;
use crate::root::state_root::Root;

/// How an object was staged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageOutcome {
    /// This session wrote it.
    Written,
    /// An earlier session wrote it, with the same content.
    Adopted,
    /// The object has the content of an earlier session, with this digest, which differs from this
    /// session's. Only under at-least-once.
    Differing(Digest),
}

/// An object of an earlier evaluation that is staged instead of the session's own.
type Copied = Option<(HeadHeader, Vec<u8>)>;

impl Root {
    /// Stages a session's object, whose chunks are already put. Once this returns and the
    /// far-future rows are published, the task may be acknowledged.
    ///
    /// The run must have claimed its number. The protocol requires this order: compare with the
    /// epoch's decision or with an older whole run, read Spark's commit log, put or adopt, then
    /// read the claims and Spark's commit log again.
    ///
    /// # Errors
    /// - `StateMismatch` if Spark's offsets of the epoch have changed, or if an earlier evaluation
    ///   is not reproduced; nothing is put then.
    /// - `InvalidState` if another session of the run has other results, or if Spark has committed
    ///   the epoch without this object.
    /// - `Fenced` if a newer run has claimed.
    /// - `Restore` for an object that is damaged or lost.
    ///
    /// Under at-least-once, other results are an error only if the session started from another
    /// state.
    pub fn stage(
        &self,
        header: &HeadHeader,
        payload: &[u8],
        partitions: u32,
        guarantee: ProcessingGuarantee,
    ) -> Result<StageOutcome> {
        let epoch = header.epoch;
        let copy = self.copy_of_earlier(header, partitions, guarantee)?;
        let (mine, payload) = copy
            .as_ref()
            .map_or((header, payload), |(header, payload)| {
                (header, payload.as_slice())
            });
        self.check_not_ended(mine, mine.digest, partitions)?;
        let first = self.log.put_head(mine, payload)?;
        match protocol::stage_step(
            first.as_ref().map(HeadHeader::summary).as_ref(),
            &header.summary(),
            guarantee,
        ) {
            StageStep::Write | StageStep::Adopt => {}
            StageStep::OffsetsChanged => {
                let recorded = first.map_or(Digest::ZERO, |first| first.offsets);
                return Err(self.offsets_changed(header, recorded));
            }
            StageStep::Mismatch {
                base_same,
                input_same,
            } => {
                return Err(self.violation(Violation::NotRepeatable {
                    object: header.id(),
                    epoch,
                    base_same,
                    input_same,
                }));
            }
        }
        let staged = first.as_ref().unwrap_or(mine).digest;
        let outcome = match first.as_ref().or(copy.as_ref().map(|(header, _)| header)) {
            None => StageOutcome::Written,
            Some(_) if staged == header.digest => StageOutcome::Adopted,
            Some(_) => StageOutcome::Differing(staged),
        };
        if outcome != StageOutcome::Written {
            self.log.remove_chunks(&header.chunks)?;
            self.log.remove_chunks(header.far_future.as_slice())?;
        }
        let name = names::head(epoch, &header.id());
        self.log.marks().fence_put(&name, epoch, header.run)?;
        self.check_not_ended(header, staged, partitions)?;
        Ok(outcome)
    }

    /// Returns the object of an earlier run, under this run's name, if it must be staged instead of
    /// the session's.
    ///
    /// Reads nothing for an epoch that was not in the log when this process first listed it in the
    /// run: the epoch has no decision, and no sink has an older run's results of it
    /// (`EpochLog::had`).
    fn copy_of_earlier(
        &self,
        header: &HeadHeader,
        partitions: u32,
        guarantee: ProcessingGuarantee,
    ) -> Result<Copied> {
        if !self.log.had(header.run, header.epoch)? {
            return Ok(None);
        }
        // If there is a decision, Spark has lost its commit, and computes the epoch again.
        match self.decisions.recorded(header.epoch)? {
            Some(decision) => self.copy_of_decided(header, &decision, guarantee),
            None => self.copy_of_older(header, partitions, guarantee),
        }
    }

    /// Checks that Spark has not committed the epoch without this object.
    ///
    /// Called before the put and after it. If Spark has already committed the epoch, the call
    /// before the put decides the epoch without the object, so an object with another result is not
    /// put.
    fn check_not_ended(&self, header: &HeadHeader, staged: Digest, partitions: u32) -> Result<()> {
        if !self.spark.is_committed(header.epoch)? {
            return Ok(());
        }
        // A superseded run decides nothing, and its error names the newer run.
        self.runs.fence(header.run)?;
        let decision = self.decisions.of(header.run, header.epoch, partitions)?;
        let decided = decision.of(&header.operator, header.partition);
        if protocol::may_stage(true, decided, staged) {
            return Ok(());
        }
        Err(self.violation(Violation::EpochEnded {
            object: header.id(),
            epoch: header.epoch,
        }))
    }

    /// Returns the decided object, under this run's name, if it must be staged instead of the
    /// session's.
    fn copy_of_decided(
        &self,
        header: &HeadHeader,
        decision: &EpochDecision,
        guarantee: ProcessingGuarantee,
    ) -> Result<Copied> {
        let (epoch, object) = (header.epoch, header.id());
        let decided = decision.of(&header.operator, header.partition);
        let step = protocol::decided_step(decided, decision.offsets, &header.summary(), guarantee);
        match (step, decision.run) {
            (ReplayStep::Own, _) => Ok(None),
            (ReplayStep::Copy, Some(run)) => {
                let decided = ObjectId { run, ..object };
                let found = self.log.head_payload(epoch, &decided)?;
                let (first, payload) = found.ok_or_else(|| {
                    self.violation(Violation::ObjectMissing {
                        object: decided,
                        epoch,
                    })
                })?;
                Ok(Some((as_copy(first, header), payload)))
            }
            (ReplayStep::OffsetsChanged, _) => Err(self.offsets_changed(header, decision.offsets)),
            (ReplayStep::Copy | ReplayStep::NotReproduced, _) => {
                Err(self.violation(Violation::DecisionNotReproduced { object, epoch }))
            }
        }
    }

    /// Returns the object of an older whole run, under this run's name, if it must be staged
    /// instead of the session's.
    ///
    /// None if there is no such run, or if the session's object counts.
    fn copy_of_older(
        &self,
        header: &HeadHeader,
        partitions: u32,
        guarantee: ProcessingGuarantee,
    ) -> Result<Copied> {
        let (epoch, object) = (header.epoch, header.id());
        // A host that was suspended during a rewind may have put objects late.
        let objects = self.log.files_in_force(epoch)?.heads;
        let Some(older) = protocol::older_whole(&objects, partitions, header.run) else {
            return Ok(None);
        };
        // If the older run has no object of this operator, there is nothing to reproduce: the run
        // may have ended before it evaluated the operator.
        let Some((first, payload)) = self.log.head_payload(
            epoch,
            &ObjectId {
                run: older,
                ..object.clone()
            },
        )?
        else {
            return Ok(None);
        };
        match protocol::replay_step(&first.summary(), &header.summary(), guarantee) {
            ReplayStep::Own => Ok(None),
            ReplayStep::Copy => Ok(Some((as_copy(first, header), payload))),
            ReplayStep::OffsetsChanged => Err(self.offsets_changed(header, first.offsets)),
            ReplayStep::NotReproduced => Err(self.violation(Violation::NotReproduced {
                object,
                epoch,
                older,
            })),
        }
    }

    fn offsets_changed(&self, header: &HeadHeader, recorded: Digest) -> Error {
        self.violation(Violation::OffsetsChanged {
            epoch: header.epoch,
            difference: OffsetsDifference::Content {
                recorded,
                file: Some(header.offsets),
            },
        })
    }
}

/// The header of a copy: an earlier object under the name of this session's run.
fn as_copy(first: HeadHeader, header: &HeadHeader) -> HeadHeader {
    HeadHeader {
        run: header.run,
        attempt: header.attempt,
        ..first
    }
}
