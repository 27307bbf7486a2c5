//! What a host answers to readers.

use std::time::Instant;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use holdfast_core::Result;

use super::Host;
use super::reads::OpenView;
use crate::net::read::ReadTarget;
use crate::protocol::{OperatorName, PartitionId, Term};
use crate::root::{ReaderAddress, Root};

impl Host {
    /// Returns a view of a partition that this host has open.
    ///
    /// # Errors
    /// As [`crate::partition::PartitionState::read_view`], and those of `Reads::tables`.
    pub(crate) fn read_view(&self, target: &ReadTarget) -> Result<Option<OpenView>> {
        let found = self
            .partitions
            .find(&target.root, &target.operator, target.partition);
        let Some(partition) = found else {
            return Ok(None);
        };
        let memory = self.memory.reads();
        let Some(view) = partition.read_view(target.isolation_level, memory)? else {
            return Ok(None);
        };
        let tables = self.reads.tables(partition.root(), target, view.run)?;
        Ok(Some(OpenView { view, tables }))
    }

    /// Publishes the address at which this host serves a partition in a term.
    ///
    /// A failure is only logged: a reader then reads without this host until a later session tries
    /// again.
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
        let Some(token) = root
            .identity
            .first_id()
            .and_then(|id| self.reads.token(&id))
        else {
            return;
        };
        let address = ReaderAddress {
            token,
            ..address.clone()
        };
        let readers = &root.readers;
        if let Err(error) = readers.publish(operator, partition, term, &address, Instant::now()) {
            log::warn!(
                "operator {operator}, partition {partition}: readers do not find this host: {error}"
            );
        }
    }

    /// Returns the id of the root that a token gives the right to read; none for another token.
    pub(crate) fn readable_root(&self, token: &[u8]) -> Option<String> {
        let ids = self.roots.all().into_iter();
        ids.filter_map(|root| root.identity.first_id()).find(|id| {
            let expected = self.reads.token(id);
            expected
                .is_some_and(|expected| verify_slices_are_equal(expected.as_bytes(), token).is_ok())
        })
    }
}
