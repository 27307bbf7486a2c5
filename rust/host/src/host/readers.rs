//! What a host answers to readers.

use holdfast_core::Result;

use super::Host;
use super::reads::OpenView;
use crate::net::read::ReadTarget;
use crate::protocol::{OperatorName, PartitionId, Term};
use crate::root::Root;

impl Host {
    /// Returns a view of a partition that this host has open.
    ///
    /// # Errors
    /// As [`crate::partition::PartitionState::read_view`]; `Restore` if the operator cannot be
    /// read.
    pub(crate) fn read_view(&self, target: &ReadTarget) -> Result<Option<OpenView>> {
        let found = self
            .partitions
            .find(&target.root, &target.operator, target.partition);
        let Some(partition) = found else {
            return Ok(None);
        };
        let Some(view) = partition.read_view(target.isolation_level)? else {
            return Ok(None);
        };
        let tables = self.reads.tables(partition.root(), target, view.run)?;
        Ok(Some(OpenView { view, tables }))
    }

    /// Tells readers that this host serves a partition in a term.
    ///
    /// A failure is only logged: a reader then reads without this host.
    pub(crate) fn publish_address(
        &self,
        root: &Root,
        operator: &OperatorName,
        partition: PartitionId,
        term: Term,
    ) {
        let Some(address) = self.reads.address() else {
            return;
        };
        if let Err(error) = root.readers.publish(operator, partition, term, address) {
            log::warn!(
                "operator {operator}, partition {partition}: readers do not find this host: {error}"
            );
        }
    }

    /// The token of readers; none if they cannot reach this host.
    pub(crate) fn reader_token(&self) -> Option<&str> {
        self.reads.address().map(|address| address.token.as_str())
    }
}
