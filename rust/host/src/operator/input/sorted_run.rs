//! A sorted run: rows of an epoch that have outgrown their memory, sorted, in a file.

use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_schema::ArrowError;
use arrow_select::interleave::interleave_record_batch;
use holdfast_core::{Error, ErrorKind, Result};

use super::batch::InputBatch;
use super::order::RowPlace;
use crate::codec::ipc::IpcReader;
use crate::operator::temporary_file::{FilePart, TemporaryFile, refused};

/// About how many bytes of each run are in memory while runs are merged.
const BATCH_BYTES: usize = 256 << 10;
const MAX_BATCH_ROWS: usize = 10_000;

/// A sorted run.
pub struct SortedRun {
    file: Arc<TemporaryFile>,
}

/// Reads a run's batches, in order.
pub struct SortedRunReader {
    reader: IpcReader<BufReader<FilePart<Arc<TemporaryFile>>>>,
    folder: PathBuf,
}

impl SortedRun {
    /// Writes the rows at `places`, in the order of this slice. `bytes` is about how much memory
    /// the rows take.
    ///
    /// # Errors
    /// `Io` if the disk is full or fails.
    pub fn write(
        folder: &Path,
        inputs: &[InputBatch],
        places: &[RowPlace],
        bytes: usize,
    ) -> Result<Self> {
        let refused = |error: std::io::Error| refused(folder, &error);
        let failed = |error: ArrowError| failed(folder, error);
        let batches: Vec<&RecordBatch> = inputs.iter().map(|input| &input.batch).collect();
        let Some(first) = batches.first() else {
            return Err(Error::new(ErrorKind::InvalidState, "a run of no rows"));
        };
        let file = TemporaryFile::create(folder).map_err(refused)?;
        let options = IpcWriteOptions::default()
            .try_with_compression(Some(CompressionType::LZ4_FRAME))
            .map_err(failed)?;
        let mut writer =
            StreamWriter::try_new_with_options(BufWriter::new(file), &first.schema(), options)
                .map_err(failed)?;
        let rows = (BATCH_BYTES / (bytes / places.len().max(1)).max(1)).clamp(1, MAX_BATCH_ROWS);
        let mut indices = Vec::with_capacity(rows);
        for places in places.chunks(rows) {
            indices.clear();
            indices.extend(places.iter().map(|place| (place.input(), place.row())));
            writer
                .write(&interleave_record_batch(&batches, &indices).map_err(failed)?)
                .map_err(failed)?;
        }
        let mut file = writer.into_inner().map_err(failed)?;
        file.flush().map_err(refused)?;
        let file = file
            .into_inner()
            .map_err(|error| refused(error.into_error()))?;
        Ok(Self {
            file: Arc::new(file),
        })
    }

    /// Returns a reader that begins at the start of the run.
    pub fn read(&self) -> SortedRunReader {
        SortedRunReader {
            reader: IpcReader::new(BufReader::new(self.file.whole())),
            folder: self.file.folder().to_owned(),
        }
    }
}

impl SortedRunReader {
    /// Returns the next batch; none at the end.
    ///
    /// # Errors
    /// `Io` if the disk fails; `Serialization` if the run is damaged.
    pub fn next(&mut self) -> Result<Option<RecordBatch>> {
        self.reader
            .next_batch()
            .map_err(|error| failed(&self.folder, error))
    }
}

fn failed(folder: &Path, error: ArrowError) -> Error {
    match error {
        ArrowError::IoError(_, error) => refused(folder, &error),
        error => Error::new(
            ErrorKind::Serialization,
            format!("rows that spill while they are sorted cannot be written or read: {error}"),
        ),
    }
}
