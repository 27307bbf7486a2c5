//! Which run an epoch went to.

use holdfast_core::Result;

use super::Root;
use crate::protocol::{self, Decision, Epoch, ObjectId, OperatorName, RunNumber, Violation};

impl Root {
    /// The run that decides an epoch which Spark has committed; none if no operator was evaluated in it.
    ///
    /// # Errors
    /// `TaskCorrupted` if the plan was evaluated only in part, `Restore` for a damaged object.
    pub fn decided(&self, epoch: Epoch, partitions: u32) -> Result<Option<RunNumber>> {
        self.decide(&self.objects(None, epoch)?, epoch, partitions)
    }

    fn decide(&self, objects: &[ObjectId], epoch: Epoch, partitions: u32) -> Result<Option<RunNumber>> {
        let in_part = |run, missing| Violation::EvaluatedInPart { epoch, run, missing };
        match protocol::decide(objects, partitions) {
            Decision::Nothing => Ok(None),
            Decision::Partial { run, missing } => Err(in_part(run, missing).into()),
            Decision::Run(run) => {
                for doubt in protocol::doubts(objects, run) {
                    let decided = ObjectId { run, ..doubt.clone() };
                    let (ours, theirs) = (self.head_header(epoch, &decided)?, self.head_header(epoch, &doubt)?);
                    let same = matches!((ours, theirs), (Some(a), Some(b)) if protocol::reproduces(&a.summary(), &b.summary()));
                    if !same {
                        return Err(in_part(doubt.run, Vec::new()).into());
                    }
                }
                Ok(Some(run))
            }
        }
    }

    /// [`Root::decided`] for an operator that took part in the query by then.
    ///
    /// # Errors
    /// As [`Root::decided`], and `TaskCorrupted` if the operator was not evaluated in the epoch.
    pub fn decided_for(&self, operator: &OperatorName, epoch: Epoch, partitions: u32) -> Result<RunNumber> {
        let not_evaluated = || Violation::NotEvaluated { epoch, operator: operator.clone() };
        let objects = self.objects(None, epoch)?;
        let run = self.decide(&objects, epoch, partitions)?.ok_or_else(not_evaluated)?;
        if objects.iter().any(|object| object.operator == *operator && object.run == run) {
            return Ok(run);
        }
        Err(not_evaluated().into())
    }
}
