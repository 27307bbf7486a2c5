//! `ahead/<operator>/<epoch>.<partition>.arrow`: rows that an operator has set aside, for people to
//! look at.

use std::fs::File;

use holdfast_core::Result;

use super::{Root, names};
use crate::protocol::{Epoch, OperatorName, PartitionId};

impl Root {
    /// Keeps an Arrow IPC file of rows that were set aside; returns where. All attempts at an epoch
    /// have the same rows, so the last one's stay.
    ///
    /// # Errors
    /// `Io` for what the disk refuses.
    pub fn put_aside(
        &self,
        operator: &OperatorName,
        epoch: Epoch,
        partition: PartitionId,
        rows: File,
    ) -> Result<String> {
        let name = names::aside(operator, epoch, partition);
        let place = self.store.place(&name);
        self.store.put_open(&name, rows, &place)?;
        Ok(place.display().to_string())
    }
}
