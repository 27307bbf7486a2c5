//! Whether operators were evaluated to their end in an epoch that Spark has not committed yet.

use std::collections::BTreeMap;

use holdfast_core::Result;

use super::EpochDecisions;
use crate::protocol::{Epoch, OperatorName, RunNumber, Violation};

impl EpochDecisions {
    /// Checks that a run has staged all partitions of each of these operators in an epoch.
    ///
    /// A task stages when its input has ended and its output was read to the end.
    ///
    /// # Errors
    /// `StateMismatch` names the first operator of which a partition is missing, `Io` if the disk
    /// fails.
    pub fn check_evaluated(
        &self,
        epoch: Epoch,
        operators: &[OperatorName],
        partitions: u32,
    ) -> Result<()> {
        let heads = self.log.files_in_force(epoch)?.heads;
        for operator in operators {
            let mut by_run: BTreeMap<RunNumber, u32> = BTreeMap::new();
            for head in heads.iter().filter(|head| head.operator == *operator) {
                *by_run.entry(head.run).or_default() += 1;
            }
            let staged = by_run.into_values().max().unwrap_or(0);
            if staged < partitions {
                return Err(self.objects.violation(Violation::NotStaged {
                    epoch,
                    operator: operator.clone(),
                    staged,
                    partitions,
                }));
            }
        }
        Ok(())
    }
}
