//! Batches of columns, and their limits.

use crate::error::{Error, ErrorKind, Result};
use arrow_array::builder::{ArrayBuilder, BinaryBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;

/// Bytes after which a batch of a scan ends, even if it has fewer rows than requested. A binary
/// column can hold far more.
pub const BATCH_BYTES: usize = 64 << 20;

/// The size of the last batch of a scan. The columns of the next batch begin with that much room: a
/// column that outgrows its room is copied.
pub struct LastBatch {
    pub(super) rows: usize,
    /// Bytes of the keys, and of the values.
    bytes: [usize; 2],
}

impl Default for LastBatch {
    /// The room of a scan's first batch: a small scan must not take much memory.
    fn default() -> Self {
        Self {
            rows: 1024,
            bytes: [1024; 2],
        }
    }
}

impl LastBatch {
    /// Returns columns of keys and values for the next batch. A sixteenth of the room is for longer
    /// rows.
    pub(super) fn columns(&self) -> [BinaryBuilder; 2] {
        self.bytes
            .map(|bytes| BinaryBuilder::with_capacity(self.rows, bytes + bytes / 16))
    }

    /// Records the size of these columns of keys and values.
    pub(super) fn note(&mut self, keys: &BinaryBuilder, values: &BinaryBuilder) {
        *self = Self {
            rows: keys.len(),
            bytes: [keys, values].map(|column| column.values_slice().len()),
        };
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_of_the_last_size_does_not_grow() {
        let mut last = LastBatch::default();
        for values in [3_000, 100, 3_000] {
            let [mut keys, mut column] = last.columns();
            for _ in 0..values {
                keys.append_value([7u8; 10]);
                column.append_value([7u8; 100]);
            }
            last.note(&keys, &column);
            let [keys, column] = last.columns();
            assert!(keys.offsets_capacity() > values);
            assert!(keys.values_capacity() >= values * 10);
            let room = column.values_capacity();
            assert!((values * 100..values * 110).contains(&room), "{room}");
        }
    }
}
