//! Finds the run whose objects decided an epoch.

use holdfast_core::{Error, Result};

use super::epochs::EpochLog;
use crate::protocol::{
    self, Decision, Epoch, ObjectId, OperatorName, PartitionId, RunNumber, Violation,
};
use crate::root::names;

impl EpochLog {
    /// Returns the run that decides an epoch which Spark has committed; none if no operator was
    /// evaluated in it.
    ///
    /// # Errors
    /// `StateMismatch` if only a part of the plan was evaluated, `Restore` for an object that is
    /// damaged or lost.
    pub fn decided(&self, epoch: Epoch, partitions: u32) -> Result<Option<RunNumber>> {
        self.decide(&self.list(None, epoch)?, epoch, partitions)
    }

    /// Returns the run that decides an epoch for an operator of the query.
    ///
    /// # Errors
    /// As [`EpochLog::decided`], and `StateMismatch` if the operator was not evaluated in the
    /// epoch.
    pub fn decided_for(
        &self,
        operator: &OperatorName,
        epoch: Epoch,
        partitions: u32,
    ) -> Result<RunNumber> {
        let objects = self.list(None, epoch)?;
        let run = self.decide(&objects, epoch, partitions)?;
        if let Some(run) = run
            && objects
                .iter()
                .any(|object| object.operator == *operator && object.run == run)
        {
            return Ok(run);
        }
        Err(match self.has_later(epoch, |other| other == operator) {
            Ok(true) => {
                let run = run.map_or_else(|| "*".to_owned(), |run| run.to_string());
                self.objects.violation(Violation::LogLost {
                    epoch,
                    lost: format!("{}/{operator}.*.{run}", names::epoch(epoch)),
                })
            }
            Ok(false) => self.objects.violation(Violation::NotEvaluated {
                epoch,
                operator: operator.clone(),
            }),
            Err(error) => error,
        })
    }

    fn decide(
        &self,
        objects: &[ObjectId],
        epoch: Epoch,
        partitions: u32,
    ) -> Result<Option<RunNumber>> {
        match protocol::decide(objects, partitions) {
            Decision::Nothing => Ok(None),
            Decision::Partial { run, missing } => {
                Err(self.incomplete(objects, epoch, run, missing))
            }
            Decision::Run(run) => {
                for newer in protocol::newer_objects(objects, run) {
                    let decided = ObjectId {
                        run,
                        ..newer.clone()
                    };
                    let (ours, theirs) = (
                        self.head_header(epoch, &decided)?,
                        self.head_header(epoch, &newer)?,
                    );
                    let same = matches!((ours, theirs),
                        (Some(a), Some(b)) if protocol::reproduces(&a.summary(), &b.summary()));
                    if !same {
                        return Err(self.incomplete(objects, epoch, newer.run, Vec::new()));
                    }
                }
                Ok(Some(run))
            }
        }
    }

    /// Returns the error for an epoch that is incomplete: evaluated in part, or objects were lost.
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
        match self.has_later(epoch, |operator| {
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
