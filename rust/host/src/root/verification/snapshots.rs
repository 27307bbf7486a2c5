//! Verifies `snapshots/`: manifests, files, and that each snapshot has the decided state.

use std::collections::HashSet;

use holdfast_core::Result;

use super::walk::{VerificationWalk, is_of_object};
use crate::protocol::{OperatorName, PartitionId};
use crate::root::names::{self, SnapshotId};

impl VerificationWalk<'_> {
    /// Lists the partitions that have a folder of snapshots.
    pub(super) fn snapshot_folders(&self) -> Result<Vec<(OperatorName, PartitionId)>> {
        let (objects, mut folders) = (&self.root.objects, Vec::new());
        for operator in objects.folders("snapshots")? {
            let Ok(operator) = OperatorName::new(&operator) else {
                continue;
            };
            let partitions = objects.folders(&names::all_snapshots(&operator))?;
            let numbers = partitions.iter().filter_map(|number| number.parse().ok());
            folders.extend(numbers.map(|number| (operator.clone(), PartitionId(number))));
        }
        folders.sort_unstable();
        Ok(folders)
    }

    /// Checks all snapshots of these partitions but those that a host removes.
    pub(super) fn snapshots(&mut self, folders: Vec<(OperatorName, PartitionId)>) -> Result<()> {
        for (operator, partition) in folders {
            let mut known = HashSet::new();
            for id in self.root.snapshots.list(&operator, partition)? {
                if self.is_lasting(&id)? {
                    self.snapshot(&id, &mut known)?;
                }
            }
            self.step()?;
        }
        Ok(())
    }

    fn snapshot(&mut self, id: &SnapshotId, known: &mut HashSet<String>) -> Result<()> {
        let name = names::snapshot(id);
        let decision = self.root.decisions.recorded(id.epoch);
        // A decision that cannot be read is damage of the log.
        if let Ok(Some(decision)) = decision
            && let Some(decided) = decision.of(&id.operator, id.partition)
            && decided.chain() != id.chain
        {
            let epoch = id.epoch;
            let problem = format!("it is not of the state that was decided in epoch {epoch}");
            self.found(&name, problem);
        }
        let (root, mut damage) = (self.root, Vec::new());
        // Read again after damage: the owner may put a file again that a former owner has removed.
        for _ in 0..2 {
            damage = match root.snapshots.verify(id, known, &mut || self.count()) {
                Ok(found) => found,
                Err(error) if !is_of_object(&error) => return Err(error),
                Err(error) => vec![(name.clone(), error)],
            };
            if damage.is_empty() {
                return Ok(());
            }
        }
        if self.is_lasting(id)? {
            for (object, error) in damage {
                self.found_error(&object, error)?;
            }
        }
        Ok(())
    }

    /// Whether a snapshot is there, no host removes it, and no rewind took its epoch back.
    fn is_lasting(&self, id: &SnapshotId) -> Result<bool> {
        let found = self
            .root
            .snapshots
            .of_partition(&id.operator, id.partition)?;
        Ok(found.lasting(id.epoch).any(|lasting| lasting == id)
            && !self.root.log.was_taken_back(id.epoch)?)
    }
}
