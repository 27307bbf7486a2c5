//! Which run an epoch went to.

use holdfast_core::{Error, Result};

use super::{Root, names};
use crate::protocol::{
    self, Decision, Epoch, ObjectId, OperatorName, PartitionId, RunNumber, Violation,
};

impl Root {
    /// The run that decides an epoch which Spark has committed; none if no operator was evaluated
    /// in it.
    ///
    /// # Errors
    /// `StateMismatch` if the plan was evaluated only in part, `Restore` for an object that is
    /// damaged or lost.
    pub fn decided(&self, epoch: Epoch, partitions: u32) -> Result<Option<RunNumber>> {
        self.decide(&self.objects(None, epoch)?, epoch, partitions)
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
                for doubt in protocol::doubts(objects, run) {
                    let decided = ObjectId {
                        run,
                        ..doubt.clone()
                    };
                    let (ours, theirs) = (
                        self.head_header(epoch, &decided)?,
                        self.head_header(epoch, &doubt)?,
                    );
                    let same = matches!((ours, theirs),
                        (Some(a), Some(b)) if protocol::reproduces(&a.summary(), &b.summary()));
                    if !same {
                        return Err(self.incomplete(objects, epoch, doubt.run, Vec::new()));
                    }
                }
                Ok(Some(run))
            }
        }
    }

    /// [`Root::decided`] for an operator that took part in the query by then.
    ///
    /// # Errors
    /// As [`Root::decided`], and `StateMismatch` if the operator was not evaluated in the epoch.
    pub fn decided_for(
        &self,
        operator: &OperatorName,
        epoch: Epoch,
        partitions: u32,
    ) -> Result<RunNumber> {
        let objects = self.objects(None, epoch)?;
        let run = self.decide(&objects, epoch, partitions)?;
        if let Some(run) = run
            && objects
                .iter()
                .any(|object| object.operator == *operator && object.run == run)
        {
            return Ok(run);
        }
        Err(match self.went_on(epoch, |other| other == operator) {
            Ok(true) => {
                let run = run.map_or_else(|| "*".to_owned(), |run| run.to_string());
                self.broken(Violation::LogLost {
                    epoch,
                    lost: format!("{}/{operator}.*.{run}", names::epoch(epoch)),
                })
            }
            Ok(false) => self.broken(Violation::NotEvaluated {
                epoch,
                operator: operator.clone(),
            }),
            Err(error) => error,
        })
    }

    /// Why an epoch's objects are not whole: the plan was evaluated in part, or some were lost.
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
        match self.went_on(epoch, |operator| {
            objects.iter().any(|object| object.operator == *operator)
        }) {
            Ok(true) => self.broken(Violation::LogLost { epoch, lost }),
            Ok(false) => self.broken(Violation::EvaluatedInPart {
                epoch,
                run,
                missing,
            }),
            Err(error) => error,
        }
    }

    /// Whether one of these operators has staged a later epoch: then it stood on a state that has
    /// this one, all of it.
    pub(super) fn went_on(
        &self,
        epoch: Epoch,
        wanted: impl Fn(&OperatorName) -> bool,
    ) -> Result<bool> {
        let rewinds = self.rewinds()?;
        for later in self.epochs()?.into_iter().filter(|later| *later > epoch) {
            if self
                .objects(None, later)?
                .iter()
                .any(|object| wanted(&object.operator) && !rewinds.have_taken(object.run, later))
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
