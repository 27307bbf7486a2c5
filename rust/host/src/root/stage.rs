//! Staging, in the order that the protocol needs.

use holdfast_core::{ProcessingGuarantee, Result};

use super::{Root, names};
use crate::log::HeadHeader;
use crate::protocol::{self, Digest, ObjectId, ReplayStep, StageStep, Violation};

/// How an object came to be staged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Staged {
    /// By this session.
    Written,
    /// By an earlier session, with the same content.
    Adopted,
    /// By an earlier session, with other content, of this digest: under at-least-once that is what
    /// counts.
    Differing(Digest),
}

impl Root {
    /// Stages a session's object; its chunks are already there. Once this returns, the task may be
    /// acknowledged.
    ///
    /// The run must have claimed. The order is the protocol's: list, compare with an older whole
    /// run, put or adopt, then look at the claims again.
    ///
    /// # Errors
    /// Under exactly-once `StateMismatch` if an older whole run is not reproduced (nothing is put
    /// then), and `InvalidState` if another session of the run came to other results; under
    /// at-least-once both only for a session that started from another state. `Fenced` if a newer
    /// run has claimed.
    pub fn stage(
        &self,
        header: &HeadHeader,
        payload: &[u8],
        partitions: u32,
        guarantee: ProcessingGuarantee,
    ) -> Result<Staged> {
        let epoch = header.epoch;
        let copy = self.kept_of_older(header, partitions, guarantee)?;
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
            return Err(self.broken(Violation::NotRepeatable {
                object: header.id(),
                epoch,
                base_same,
                input_same,
            }));
        }
        let staged = match first.as_ref().or(copy.as_ref().map(|(header, _)| header)) {
            None => Staged::Written,
            Some(kept) if kept.digest == header.digest => Staged::Adopted,
            Some(kept) => Staged::Differing(kept.digest),
        };
        if staged != Staged::Written {
            self.remove_chunks(&header.chunks)?;
        }
        self.settle(&names::head(epoch, &header.id()), epoch, header.run)?;
        Ok(staged)
    }

    /// What a run that has not reproduced an older whole one stages instead: that one's object
    /// under its own name.
    fn kept_of_older(
        &self,
        header: &HeadHeader,
        partitions: u32,
        guarantee: ProcessingGuarantee,
    ) -> Result<Option<(HeadHeader, Vec<u8>)>> {
        let (epoch, object) = (header.epoch, header.id());
        let objects = self.objects(None, epoch)?;
        let Some(older) = protocol::older_whole(&objects, partitions, header.run) else {
            return Ok(None);
        };
        // An operator that the older run did not have has nothing to reproduce: that run may have
        // ended before it came to it.
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
            ReplayStep::NotReproduced => Err(self.broken(Violation::NotReproduced {
                object,
                epoch,
                older,
            })),
        }
    }
}
