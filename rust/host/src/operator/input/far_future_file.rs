//! The file of far-future rows. No operator processes these rows; they are written as they arrive,
//! for users to read.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};
use holdfast_core::{Error, ErrorKind, Result};
use xxhash_rust::xxh3::xxh3_128;

use super::columns::SIDE;
use super::digest::InputDigest;
use crate::codec::row::RowCodec;
use crate::operator::temporary_file::TemporaryFile;
use crate::protocol::Digest;
use crate::root::open_files;

/// An Arrow IPC file of a session's far-future rows.
pub struct FarFutureFile {
    schema: SchemaRef,
    folder: PathBuf,
    writer: Option<FileWriter<BufWriter<TemporaryFile>>>,
    rows: u64,
    digest: InputDigest,
}

impl FarFutureFile {
    /// Starts without rows and without a file. `schema` has the input's columns as the user names
    /// them; in the file, their names are unique. `folder` is where the file is created.
    #[must_use]
    pub fn new(schema: Schema, folder: PathBuf) -> Self {
        Self {
            schema: Arc::new(with_unique_names(&schema)),
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
                let file = TemporaryFile::create(folder);
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

    /// Finishes the file, and returns it positioned at its start; none if there are no rows.
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
        let file = file.map_err(|error| refused(&self.folder, error.error()))?;
        Ok(file.into_file())
    }
}

/// Returns the columns with unique names: some libraries merge or refuse columns of one name. Of
/// several columns named `x`, the first one is `x`, the second one is `x_2`.
///
/// Two frames may have columns of one name, a key of floats is also in the payload, and a column of
/// the user may have the name of one of the first four.
fn with_unique_names(schema: &Schema) -> Schema {
    let mut taken: HashSet<String> = schema
        .fields()
        .iter()
        .map(|field| field.name().clone())
        .collect();
    let mut first: HashSet<&str> = HashSet::new();
    let fields = schema.fields().iter().map(|field| {
        let name = field.name();
        if first.insert(name) {
            return Field::clone(field);
        }
        let mut number = 2;
        while !taken.insert(format!("{name}_{number}")) {
            number += 1;
        }
        Field::clone(field).with_name(format!("{name}_{number}"))
    });
    Schema::new(fields.collect::<Vec<Field>>())
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

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, BooleanArray, Int64Array};
    use arrow_ipc::reader::FileReader;

    use super::*;

    /// The bug: two frames with a column of one name gave a file with two columns of that name.
    #[test]
    fn columns_of_one_name_have_unique_names_in_the_file() {
        let given = ["pid", "side", "t", "n", "t", "n", "n_2", "n"];
        let fields = given.map(|name| {
            let data_type = if name == "side" {
                arrow_schema::DataType::Boolean
            } else {
                arrow_schema::DataType::Int64
            };
            Field::new(name, data_type, true)
        });
        let schema = Schema::new(fields.to_vec());
        let columns: Vec<ArrayRef> = (0_i64..)
            .zip(given)
            .map(|(number, name)| -> ArrayRef {
                if name == "side" {
                    Arc::new(BooleanArray::from(vec![true]))
                } else {
                    Arc::new(Int64Array::from(vec![number]))
                }
            })
            .collect();
        let rows = RecordBatch::try_new(Arc::new(schema.clone()), columns.clone()).expect("rows");
        let folder = tempfile::tempdir().expect("a folder");
        let mut file = FarFutureFile::new(schema, folder.path().to_owned());
        file.push(&rows).expect("written");
        let file = file.finish().expect("written").expect("rows");
        let batch = FileReader::try_new(file, None)
            .expect("a file")
            .next()
            .expect("a batch")
            .expect("rows");
        let names: Vec<&str> = batch
            .schema_ref()
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        assert_eq!(names, ["pid", "side", "t", "n", "t_2", "n_3", "n_2", "n_4"]);
        assert_eq!(batch.columns(), columns);
    }
}
