//! Reads decided epochs of the log, one after the other.

use std::sync::Arc;

use holdfast_core::{Error, ErrorKind, Result};

use crate::partition::{DecidedEpoch, not_evaluated};
use crate::protocol::{Digest, Epoch, EpochDecision, OperatorName, PartitionId};
use crate::reader::epochs::FinalEpochs;
use crate::root::Root;
use crate::tables::{EmitRows, TableChanges};

/// Reads the changes of some partitions of an operator.
pub struct ChangeStream {
    root: Arc<Root>,
    operator: OperatorName,
    partitions: Vec<PartitionId>,
    epochs: Arc<FinalEpochs>,
    /// The digest of each partition's chain after the last epoch that was read; none before the
    /// first.
    chains: Vec<Option<Digest>>,
}

impl ChangeStream {
    /// Makes a stream. It reads nothing before [`ChangeStream::read`].
    pub fn new(
        root: Arc<Root>,
        epochs: Arc<FinalEpochs>,
        operator: OperatorName,
        partitions: Vec<PartitionId>,
    ) -> Self {
        Self {
            root,
            operator,
            chains: vec![None; partitions.len()],
            partitions,
            epochs,
        }
    }

    /// Reads the epochs from `first` to `last`, both included, and passes their changes to `emit`.
    /// Calls `check_open` before each epoch: many epochs may have no changes of the table.
    ///
    /// # Errors
    /// `ChangesLost` if an epoch is removed meanwhile, `Restore` for an object that is damaged or
    /// missing, or for an epoch that is taken back meanwhile; the error of
    /// [`not_evaluated`] if an epoch lacks the operator; those of `changes`, `check_open` and
    /// `emit`.
    pub fn read(
        mut self,
        (first, last): (Epoch, Epoch),
        mut changes: TableChanges,
        check_open: &dyn Fn() -> Result<()>,
        emit: &mut EmitRows<'_>,
    ) -> Result<()> {
        let mut epoch = first;
        while epoch <= last {
            check_open()?;
            let read = self.read_epoch(epoch, &mut changes, emit);
            read.map_err(|error| match error.kind() {
                ErrorKind::Restore => self.removed(epoch).unwrap_or(error),
                _ => error,
            })?;
            epoch = epoch.next();
        }
        Ok(())
    }

    fn read_epoch(
        &mut self,
        epoch: Epoch,
        changes: &mut TableChanges,
        emit: &mut EmitRows<'_>,
    ) -> Result<()> {
        let decision = self.epochs.find_now(epoch)?;
        let decision = decision.ok_or_else(|| self.taken_back(epoch))?;
        for place in 0..self.partitions.len() {
            let read = self.object(place, &decision)?;
            read.for_each_records(&self.root, &mut |records| changes.add(epoch, records, emit))?;
        }
        // A host that is removing the epoch may have removed this operator's objects only.
        if self.chains.contains(&None)
            && let Some(error) = self.removed(epoch)
        {
            return Err(error);
        }
        changes.flush(epoch, emit)
    }

    /// Reads a partition's object of a decided epoch, and checks that it continues the previous
    /// epoch.
    fn object(&mut self, place: usize, decision: &EpochDecision) -> Result<DecidedEpoch> {
        let partition = self.partitions[place];
        let read = DecidedEpoch::read(&self.root, &self.operator, partition, decision)?;
        match (read.decided(), self.chains[place]) {
            // The operator takes part from a later epoch on; the caller checks that no host is
            // removing this one.
            (None, None) => {}
            (None, Some(_)) => {
                return Err(not_evaluated(&self.root, &self.operator, decision.epoch));
            }
            (Some(decided), Some(before)) if decided.base != before => {
                return Err(self.taken_back(decision.epoch));
            }
            (Some(decided), _) => self.chains[place] = Some(decided.chain()),
        }
        Ok(read)
    }

    /// The error for an epoch that the log does not hold.
    pub fn lost(&self, epoch: Epoch) -> Error {
        self.removed(epoch)
            .unwrap_or_else(|| self.taken_back(epoch))
    }

    /// The error for an epoch that was removed from the log; none if the log's oldest epoch is
    /// `epoch` or an earlier one.
    fn removed(&self, epoch: Epoch) -> Option<Error> {
        let oldest = self.oldest();
        let there = match oldest {
            Err(error) => return Some(error),
            Ok(Some(oldest)) if oldest <= epoch => return None,
            Ok(Some(oldest)) => format!("the oldest epoch that it holds is {oldest}"),
            Ok(None) => "it holds no final epoch".to_owned(),
        };
        let text = format!(
            "the log no longer holds the changes of epoch {epoch}: {there}. Read the table at a \
             final epoch and then its later changes, or keep more of the log \
             (State(retain_epochs=))"
        );
        Some(Error::new(ErrorKind::ChangesLost, text).path(self.root.path()))
    }

    fn oldest(&self) -> Result<Option<Epoch>> {
        self.epochs.look_again();
        let newest = self.epochs.newest()?;
        let oldest = newest.map(|newest| self.root.log.first_before(newest));
        Ok(oldest.transpose()?.flatten())
    }

    fn taken_back(&self, epoch: Epoch) -> Error {
        let text = format!(
            "a rewind has taken back epoch {epoch}, or an epoch before it, during the read. Read \
             the changes again"
        );
        Error::new(ErrorKind::Restore, text).path(self.root.path())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use object_store::memory::InMemory;
    use serde_json::json;

    use super::*;
    use crate::root::{OperatorMeta, RecordedOperator};
    use crate::tables::operator_tables;

    #[test]
    fn stream_that_is_closed_reads_no_further_epoch() {
        let meta = json!({"kind": "process", "key": [], "settings": {}, "first_epoch": 0,
            "stores": [{"name": "store", "kind": "key_value"}]});
        let meta: OperatorMeta = serde_json::from_value(meta).expect("an operator");
        let payloads = vec![meta.payload.clone()];
        let tables = operator_tables(&RecordedOperator { meta, payloads }).expect("has columns");
        let table = tables.into_iter().next().expect("a table");
        let changes = TableChanges::new(Arc::new(table)).expect("rows of the log");
        let root = Arc::new(Root::over(Arc::new(InMemory::new()), Path::new("memory")));
        let epochs = Arc::new(FinalEpochs::new(Arc::clone(&root), "id".to_owned(), 1));
        let operator = OperatorName::new("process").expect("a name");
        let stream = ChangeStream::new(root, epochs, operator, vec![PartitionId(0)]);
        let check_open = || -> Result<()> { Err(Error::new(ErrorKind::StoreClosed, "closed")) };
        let read = stream.read((Epoch(0), Epoch(9)), changes, &check_open, &mut |_| Ok(()));
        // The root has none of these epochs.
        let error = read.expect_err("is closed");
        assert_eq!(error.kind(), ErrorKind::StoreClosed, "{error}");
    }
}
