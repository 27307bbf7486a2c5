//! The file of far-future rows. No operator processes these rows; they are written as they arrive,
//! for users to read.

use std::fs::File;
use std::io::{self, BufWriter, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use holdfast_core::{Error, ErrorKind, Result};
use xxhash_rust::xxh3::xxh3_128;

use super::columns::SIDE;
use super::digest::InputDigest;
use crate::codec::row::RowCodec;
use crate::protocol::Digest;
use crate::root::open_files;

/// An Arrow IPC file of a session's far-future rows. The file has no name, so it disappears with
/// the process.
pub struct FarFutureFile {
    schema: SchemaRef,
    folder: PathBuf,
    writer: Option<FileWriter<BufWriter<File>>>,
    rows: u64,
    digest: InputDigest,
}

impl FarFutureFile {
    /// Starts without rows and without a file. `schema` has the input's columns as the user names
    /// them. `folder` is where the file is created.
    #[must_use]
    pub fn new(schema: Schema, folder: PathBuf) -> Self {
        Self {
            schema: Arc::new(schema),
            folder,
            writer: None,
            rows: 0,
            digest: InputDigest::default(),
        }
    }

    /// Adds rows.
    ///
    /// # Errors
    /// `Io` if the disk is full or fails; `InvalidType` or `Serialization` for rows that cannot be
    /// encoded.
    pub fn push(&mut self, rows: &RecordBatch) -> Result<()> {
        let Self {
            schema,
            folder,
            writer,
            digest,
            ..
        } = self;
        let input = rows.schema();
        let encoded = RowCodec::new(input.fields()[SIDE..].iter().map(Arc::as_ref))?
            .encode(&rows.columns()[SIDE..])?;
        (0..rows.num_rows()).for_each(|row| digest.add_row(xxh3_128(encoded.get(row))));
        let failed = |error| failed(folder, error);
        let writer = match writer {
            Some(writer) => writer,
            none => {
                let file = std::fs::create_dir_all(&*folder)
                    .and_then(|()| tempfile::tempfile_in(&*folder));
                let file = BufWriter::new(file.map_err(|error| refused(folder, &error))?);
                none.insert(FileWriter::try_new(file, schema).map_err(failed)?)
            }
        };
        let named = RecordBatch::try_new(Arc::clone(schema), rows.columns().to_vec());
        named.and_then(|rows| writer.write(&rows)).map_err(failed)?;
        self.rows += rows.num_rows() as u64;
        Ok(())
    }

    /// The number of rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The digest of the rows, which does not depend on their order; none if there are no rows.
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        (self.rows > 0).then(|| self.digest.digest())
    }

    /// Finishes the file and rewinds it to its start; none if there are no rows.
    ///
    /// # Errors
    /// `Io` if the disk is full or fails.
    pub fn finish(self) -> Result<Option<File>> {
        let Some(writer) = self.writer else {
            return Ok(None);
        };
        let file = writer
            .into_inner()
            .map_err(|error| failed(&self.folder, error))?
            .into_inner();
        let mut file = file.map_err(|error| refused(&self.folder, error.error()))?;
        file.rewind()
            .map_err(|error| refused(&self.folder, &error))?;
        Ok(Some(file))
    }
}

fn failed(folder: &Path, error: ArrowError) -> Error {
    match error {
        ArrowError::IoError(_, error) => refused(folder, &error),
        error => Error::new(
            ErrorKind::Serialization,
            format!("far-future rows cannot be written: {error}"),
        ),
    }
}

fn refused(folder: &Path, error: &io::Error) -> Error {
    let advice = open_files(error)
        .unwrap_or("Free some space there, or give State(local_dir=...) on a larger disk");
    let text = format!(
        "rows dated more than max_ahead in the future could not be written to disk ({error}). \
         {advice}"
    );
    Error::new(ErrorKind::Io, text).path(folder)
}
