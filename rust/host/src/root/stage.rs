//! Staging, in the order that the protocol needs.

use holdfast_core::{ProcessingGuarantee, Result};

use super::{Root, names};
use crate::log::HeadHeader;
use crate::protocol::{self, HeadSummary, ObjectId, StageStep, Violation};

/// How an object came to be staged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Staged {
    /// By this session.
    Written,
    /// By an earlier session of the run; under exactly-once with the same content.
    Adopted,
}

impl Root {
    /// Stages a session's object; its chunks are already there. Once this returns, the task may be acknowledged.
    ///
    /// The run must have claimed. The order is the protocol's: list, compare with an older whole run, put or adopt, then
    /// look at the claims again.
    ///
    /// # Errors
    /// Under exactly-once `TaskCorrupted` if an older whole run is not reproduced (nothing is put then), and `InvalidState` if
    /// another session of the run came to other results; `Fenced` if a newer run has claimed.
    pub fn stage(&self, header: &HeadHeader, payload: &[u8], partitions: u32, guarantee: ProcessingGuarantee) -> Result<Staged> {
        let (epoch, mine) = (header.epoch, header.summary());
        let object = header.id();
        let objects = self.objects(None, epoch)?;
        if let Some(older) = protocol::older_whole(&objects, partitions, header.run) {
            let theirs = ObjectId { run: older, ..object.clone() };
            // An operator that the older run did not have has nothing to reproduce: that run may have ended before it came to it.
            if let Some(first) = self.head_header(epoch, &theirs)?
                && !protocol::accepts(&first.summary(), &mine, guarantee)
            {
                return Err(self.broken(Violation::NotReproduced { object, epoch, older }));
            }
        }
        let first = self.put_head(header, payload)?.map(|first| first.summary());
        let staged = settle(first.as_ref(), header, guarantee).map_err(|violation| self.broken(violation))?;
        if staged == Staged::Adopted {
            self.remove_chunks(&header.chunks)?;
        }
        self.settle(&names::head(epoch, &header.id()), epoch, header.run)?;
        Ok(staged)
    }
}

/// What a put that found another object comes to.
fn settle(first: Option<&HeadSummary>, header: &HeadHeader, guarantee: ProcessingGuarantee) -> std::result::Result<Staged, Violation> {
    match protocol::stage_step(first, &header.summary(), guarantee) {
        StageStep::Write => Ok(Staged::Written),
        StageStep::Adopt => Ok(Staged::Adopted),
        StageStep::Mismatch { base_same, input_same } => {
            Err(Violation::NotRepeatable { object: header.id(), epoch: header.epoch, base_same, input_same })
        }
    }
}
