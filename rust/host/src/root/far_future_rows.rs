//! `ahead/<operator>/<epoch>.<partition>.arrow`: rows beyond `max_ahead`, written for inspection.

use std::fs::File;
use std::sync::Arc;

use holdfast_core::Result;

use super::names;
use super::objects::Objects;
use crate::protocol::{Epoch, OperatorName, PartitionId};

/// The far-future rows of a root.
#[derive(Debug)]
pub struct FarFutureRows {
    objects: Arc<Objects>,
}

impl FarFutureRows {
    /// The far-future rows of a root.
    pub(super) fn new(objects: Arc<Objects>) -> Self {
        Self { objects }
    }

    /// Whether an epoch's far-future rows are stored.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn exists(
        &self,
        operator: &OperatorName,
        epoch: Epoch,
        partition: PartitionId,
    ) -> Result<bool> {
        self.objects
            .exists(&names::far_future(operator, epoch, partition))
    }

    /// Puts an Arrow IPC file of far-future rows; returns its path. It replaces an earlier one.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn put(
        &self,
        operator: &OperatorName,
        epoch: Epoch,
        partition: PartitionId,
        rows: File,
    ) -> Result<String> {
        let name = names::far_future(operator, epoch, partition);
        let place = self.objects.place(&name);
        self.objects.put_open(&name, rows, &place)?;
        Ok(place.display().to_string())
    }

    /// Lists the files of all operators in the epochs that `wanted` accepts.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn list(&self, wanted: impl Fn(Epoch) -> bool) -> Result<Vec<String>> {
        let mut objects = Vec::new();
        for operator in self.objects.folders(names::AHEAD)? {
            let folder = format!("{}/{operator}", names::AHEAD);
            let files = self
                .objects
                .list(&folder)?
                .into_iter()
                .filter(|file| names::parse_far_future(file).is_some_and(&wanted));
            objects.extend(files.map(|file| format!("{folder}/{file}")));
        }
        Ok(objects)
    }
}
