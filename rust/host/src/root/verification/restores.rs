//! Verifies that each partition can be restored from its newest snapshot and the log.

use holdfast_core::Result;

use super::walk::VerificationWalk;
use crate::protocol::{Epoch, PartitionId};
use crate::root::names;

impl VerificationWalk<'_> {
    /// Checks the partitions of the operators in the newest decided epoch.
    pub(super) fn restores(&mut self, partitions: u32) -> Result<()> {
        let epochs = self.listed_epochs()?;
        let mut newest = None;
        for epoch in epochs.iter().rev() {
            // A decision that cannot be read is in the report already.
            if let Ok(Some(decision)) = self.root.decisions.recorded(*epoch) {
                newest = Some(decision);
                break;
            }
        }
        // Read before the snapshots: the log is trimmed only up to a snapshot.
        let (Some(newest), Some(oldest)) = (newest, self.oldest_epoch()?) else {
            return Ok(());
        };
        for operator in newest.operators.keys() {
            let first = match self.root.operators.first_epoch(operator) {
                Ok(first) => first,
                Err(error) => {
                    let name = names::operator(operator);
                    if !self.report.damage.iter().any(|found| found.object == name) {
                        self.found_error(&name, error)?;
                    }
                    continue;
                }
            };
            for partition in (0..partitions.cast_signed()).map(PartitionId) {
                let found = self.root.snapshots.of_partition(operator, partition)?;
                let needed = found
                    .lasting(newest.epoch)
                    .next()
                    .map_or(first, |id| id.epoch.next());
                if needed < oldest {
                    let folder = names::snapshots(operator, partition);
                    let problem = format!(
                        "the partition cannot be restored: there is no snapshot of an epoch that \
                         is in the log. Restore {folder} from a backup"
                    );
                    self.found(folder, problem);
                }
            }
        }
        Ok(())
    }

    /// Returns the oldest epoch of the log that has an object in force.
    fn oldest_epoch(&self) -> Result<Option<Epoch>> {
        let rewinds = self.root.log.marks().read()?;
        for epoch in self.listed_epochs()? {
            if !self.root.log.files_after(epoch, &rewinds)?.is_empty() {
                return Ok(Some(epoch));
            }
        }
        Ok(None)
    }
}
