//! The payload: records as an Arrow IPC stream with lz4.

use std::sync::{Arc, LazyLock};

use arrow_ipc::CompressionType;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use holdfast_core::{Error, ErrorKind, Result};

use super::envelope::damaged;
use super::records::Records;
use crate::codec::ipc::IpcReader;

/// The columns of the records of every log object.
pub static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let store = DataType::Dictionary(Box::new(DataType::Int16), Box::new(DataType::Utf8));
    Arc::new(Schema::new(vec![
        Field::new("store", store, false),
        Field::new("key", DataType::Binary, false),
        Field::new("value", DataType::Binary, true),
        Field::new("timestamp", DataType::Int64, true),
    ]))
});

/// An Arrow IPC stream that is being written.
pub type PayloadStream = StreamWriter<Vec<u8>>;

/// Converts the error of a write by Arrow. Such an error is a bug of Holdfast.
pub fn unwritable(error: &ArrowError) -> Error {
    Error::new(
        ErrorKind::Serialization,
        format!("log object: records cannot be written as Arrow IPC: {error}"),
    )
}

/// Starts a stream.
///
/// # Errors
/// `Serialization`.
pub fn start() -> Result<PayloadStream> {
    let options = IpcWriteOptions::default()
        .try_with_compression(Some(CompressionType::LZ4_FRAME))
        .map_err(|error| unwritable(&error))?;
    StreamWriter::try_new_with_options(Vec::new(), &SCHEMA, options)
        .map_err(|error| unwritable(&error))
}

/// Decodes a payload; an empty one holds no records.
///
/// # Errors
/// `Restore` for a payload that cannot be read or has other columns.
pub fn read(name: &str, payload: &[u8]) -> Result<Records> {
    if payload.is_empty() {
        return Ok(Records::default());
    }
    let wrong = |error: ArrowError| damaged(name, &format!("its records cannot be read ({error})"));
    let (mut reader, mut batches) = (IpcReader::new(payload), Vec::new());
    while let Some(batch) = reader.next_batch().map_err(wrong)? {
        batches.push(batch);
    }
    if reader
        .schema()
        .is_none_or(|schema| schema.fields() != SCHEMA.fields())
    {
        return Err(damaged(name, "its records have other columns"));
    }
    Records::new(name, batches)
}
