//! Whether operators were evaluated to their end in an epoch that Spark has not committed yet.

use std::collections::BTreeSet;

use holdfast_core::Result;

use super::EpochDecisions;
use super::deciding::Headers;
use crate::protocol::{Decision, Epoch, ObjectId, OperatorName, PartitionId, RunNumber, Violation};

impl EpochDecisions {
    /// Checks that one run has staged all partitions of each of these operators in an epoch, and
    /// that this run would decide the epoch.
    ///
    /// A task stages when its input has ended and its output was read to the end. A run before the
    /// current one is enough: a sink that has the micro-batch already may skip it, as Delta does
    /// with `txnVersion`, and then no task runs.
    ///
    /// # Errors
    /// `StateMismatch` names the first operator of which a partition is missing, `Restore` for an
    /// object that is damaged, `Io` if the disk fails.
    pub fn check_evaluated(
        &self,
        epoch: Epoch,
        operators: &[OperatorName],
        partitions: u32,
    ) -> Result<()> {
        let heads = self.log.files_in_force(epoch)?.heads;
        let decision = Headers::new(self, epoch).decide(&heads, partitions)?;
        // An operator that an older run has staged must be in the run that decides.
        let (run, others) = match decision {
            Decision::Run(run) => (run, &[][..]),
            Decision::Partial { run, .. } => (run, &heads[..]),
            Decision::Nothing => (RunNumber(0), &[][..]),
        };
        let others = others.iter().map(|head| &head.operator);
        let staged = |operator: &OperatorName| staged(&heads, operator, run);
        let is_short = |operator: &&OperatorName| staged(operator) < partitions;
        match operators.iter().chain(others).find(is_short) {
            None => Ok(()),
            Some(operator) if !operators.contains(operator) => {
                Err(self.objects.violation(Violation::StagedEarlier {
                    epoch,
                    operator: operator.clone(),
                }))
            }
            Some(operator) => Err(self.objects.violation(Violation::NotStaged {
                epoch,
                operator: operator.clone(),
                staged: staged(operator),
                partitions,
            })),
        }
    }
}

/// How many partitions of an operator a run has staged.
fn staged(heads: &[ObjectId], operator: &OperatorName, run: RunNumber) -> u32 {
    let of_run = heads
        .iter()
        .filter(|head| head.operator == *operator && head.run == run);
    let partitions: BTreeSet<PartitionId> = of_run.map(|head| head.partition).collect();
    u32::try_from(partitions.len()).unwrap_or(u32::MAX)
}
