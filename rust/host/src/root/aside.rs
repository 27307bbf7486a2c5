//! `ahead/<operator>/<epoch>.<partition>.arrow`: rows that an operator has set aside, for people to look at.

use arrow_array::RecordBatch;
use arrow_ipc::writer::FileWriter;
use arrow_schema::ArrowError;
use holdfast_core::{Error, ErrorKind, Result};

use super::{Root, names};
use crate::protocol::{Epoch, OperatorName, Partition};

impl Root {
    /// Keeps rows that were set aside as an Arrow IPC file; returns where. A retry's are the same, so the first ones stay.
    ///
    /// # Errors
    /// `Io` for what the disk refuses, `Serialization` if the rows cannot be written.
    pub fn put_aside(&self, operator: &OperatorName, epoch: Epoch, partition: Partition, rows: &[RecordBatch]) -> Result<String> {
        let name = names::aside(operator, epoch, partition);
        let bytes = file(rows)
            .map_err(|error| Error::new(ErrorKind::Serialization, format!("rows that are set aside cannot be written: {error}")))?;
        self.store.put_absent(&name, &bytes)?;
        Ok(self.store.place(&name).display().to_string())
    }
}

fn file(rows: &[RecordBatch]) -> std::result::Result<Vec<u8>, ArrowError> {
    let Some(first) = rows.first() else { return Ok(Vec::new()) };
    let mut writer = FileWriter::try_new(Vec::new(), &first.schema())?;
    rows.iter().try_for_each(|batch| writer.write(batch))?;
    writer.into_inner()
}
