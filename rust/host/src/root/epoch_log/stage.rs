//! Stages an object, in the order that the protocol requires.

use holdfast_core::{ProcessingGuarantee, Result};

use super::epochs::EpochLog;
use crate::log::HeadHeader;
use crate::protocol::{self, Digest, ObjectId, ReplayStep, StageStep, Violation};
use crate::root::names;

/// How an object was staged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageOutcome {
    /// This session wrote it.
    Written,
    /// An earlier session wrote it, with the same content.
    Adopted,
    /// An earlier session wrote it, with other content of this digest. Under at-least-once the
    /// earlier content is used.
    Differing(Digest),
}

impl EpochLog {
    /// Stages a session's object, whose chunks are already put. Once this returns, the task may be
    /// acknowledged.
    ///
    /// The run must have claimed. The order is the protocol's: list, compare with an older whole
    /// run, put or adopt, then read the claims again.
    ///
    /// # Errors
    /// Under exactly-once `StateMismatch` if an older whole run is not reproduced (nothing is put
    /// then), and `InvalidState` if another session of the run has other results. Under
    /// at-least-once both only for a session that started from another state. `Fenced` if a newer
    /// run has claimed.
    pub fn stage(
        &self,
        header: &HeadHeader,
        payload: &[u8],
        partitions: u32,
        guarantee: ProcessingGuarantee,
    ) -> Result<StageOutcome> {
        let epoch = header.epoch;
        let copy = self.copy_of_older(header, partitions, guarantee)?;
        let (mine, payload) = copy
            .as_ref()
            .map_or((header, payload), |(header, payload)| {
                (header, payload.as_slice())
            });
        let first = self.put_head(mine, payload)?;
        if let StageStep::Mismatch {
            base_same,
            input_same,
        } = protocol::stage_step(
            first.as_ref().map(HeadHeader::summary).as_ref(),
            &header.summary(),
            guarantee,
        ) {
            return Err(self.objects.violation(Violation::NotRepeatable {
                object: header.id(),
                epoch,
                base_same,
                input_same,
            }));
        }
        let outcome = match first.as_ref().or(copy.as_ref().map(|(header, _)| header)) {
            None => StageOutcome::Written,
            Some(staged) if staged.digest == header.digest => StageOutcome::Adopted,
            Some(staged) => StageOutcome::Differing(staged.digest),
        };
        if outcome != StageOutcome::Written {
            self.remove_chunks(&header.chunks)?;
        }
        let name = names::head(epoch, &header.id());
        self.marks.fence_put(&name, epoch, header.run)?;
        Ok(outcome)
    }

    /// Returns the object of an older whole run that must be staged instead, under this run's name.
    ///
    /// None if there is no such run, or if this session reproduces it.
    fn copy_of_older(
        &self,
        header: &HeadHeader,
        partitions: u32,
        guarantee: ProcessingGuarantee,
    ) -> Result<Option<(HeadHeader, Vec<u8>)>> {
        let (epoch, object) = (header.epoch, header.id());
        let objects = self.list(None, epoch)?;
        let Some(older) = protocol::older_whole(&objects, partitions, header.run) else {
            return Ok(None);
        };
        // An operator that the older run does not have has nothing to reproduce: that run may have
        // ended before it evaluated the operator.
        let Some((first, payload)) = self.head_payload(
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
            ReplayStep::Copy => Ok(Some((
                HeadHeader {
                    run: header.run,
                    attempt: header.attempt,
                    ..first
                },
                payload,
            ))),
            ReplayStep::NotReproduced => Err(self.objects.violation(Violation::NotReproduced {
                object,
                epoch,
                older,
            })),
        }
    }
}
