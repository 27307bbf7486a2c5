//! Batches of columns, and their limits.

use crate::error::{Error, ErrorKind, Result};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;

/// Bytes after which a batch of a scan ends, even if it has fewer rows than requested. A binary
/// column can hold far more.
pub const BATCH_BYTES: usize = 64 << 20;

/// Fails if one binary column cannot hold this many bytes.
///
/// # Errors
/// `InvalidValue`.
pub fn check_size(bytes: usize) -> Result<()> {
    if i32::try_from(bytes).is_ok() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidValue,
        format!(
            "the values of this batch are {bytes} bytes together, more than an Arrow binary \
             column holds (2 GiB); ask for fewer keys"
        ),
    ))
}

/// Returns a record batch of these columns.
///
/// # Errors
/// `InvalidState` if they do not match the schema or differ in length.
pub fn batch(schema: SchemaRef, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
    RecordBatch::try_new(schema, columns)
        .map_err(|error| Error::new(ErrorKind::InvalidState, error.to_string()))
}
