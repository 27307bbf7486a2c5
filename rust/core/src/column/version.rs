//! Versions as Arrow columns: `[key,] value, timestamp, valid_to`.

use crate::column::batch::{BATCH_BYTES, LastBatch, batch, check_size};
use crate::error::Result;
use crate::store::versioned::{Version, VersionScan};
use crate::time::Timestamp;
use arrow_array::builder::{BinaryBuilder, Int64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::sync::Arc;

/// Returns the names and types of the columns. A row without a version has nulls in all but `key`.
pub fn version_schema(with_keys: bool) -> SchemaRef {
    let mut fields = vec![
        Field::new("value", DataType::Binary, true),
        Field::new("timestamp", DataType::Int64, true),
        Field::new("valid_to", DataType::Int64, true),
    ];
    if with_keys {
        fields.insert(0, Field::new("key", DataType::Binary, false));
    }
    Arc::new(Schema::new(fields))
}

/// Builds the columns of versions.
pub struct VersionColumns {
    keys: Option<BinaryBuilder>,
    values: BinaryBuilder,
    timestamps: Int64Builder,
    valid_to: Int64Builder,
    bytes: usize,
}

impl VersionColumns {
    /// Returns columns for rows whose keys the caller has.
    pub fn without_keys(rows: usize) -> Self {
        Self {
            keys: None,
            values: BinaryBuilder::with_capacity(rows, 0),
            timestamps: Int64Builder::with_capacity(rows),
            valid_to: Int64Builder::with_capacity(rows),
            bytes: 0,
        }
    }

    /// Returns columns for the next batch of a scan.
    fn with_keys(last: &LastBatch) -> Self {
        let [keys, values] = last.columns();
        Self {
            keys: Some(keys),
            values,
            timestamps: Int64Builder::with_capacity(last.rows),
            valid_to: Int64Builder::with_capacity(last.rows),
            bytes: 0,
        }
    }

    /// Adds a row; without a version it is null.
    pub fn append(&mut self, key: Option<&[u8]>, version: Option<Version<'_>>) {
        let value = version.as_ref().map(|version| version.value);
        let key = key.filter(|_| self.keys.is_some());
        let bytes = key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len);
        self.bytes = self.bytes.saturating_add(bytes);
        if check_size(self.bytes).is_err() {
            // `finish` fails, so no row is needed any more.
            *self = Self {
                bytes: self.bytes,
                ..Self::without_keys(0)
            };
            return;
        }
        if let (Some(keys), Some(key)) = (&mut self.keys, key) {
            keys.append_value(key);
        }
        self.values.append_option(value);
        self.timestamps
            .append_option(version.as_ref().map(|version| version.timestamp.0));
        self.valid_to.append_option(
            version
                .and_then(|version| version.valid_to)
                .map(|time| time.0),
        );
    }

    /// Adds the row of a put: only its `valid_to` is set.
    pub fn append_end(&mut self, valid_to: Option<Timestamp>) {
        self.values.append_null();
        self.timestamps.append_null();
        self.valid_to.append_option(valid_to.map(|time| time.0));
    }

    fn columns(&mut self) -> Result<Vec<ArrayRef>> {
        check_size(self.bytes)?;
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(4);
        columns.extend(
            self.keys
                .as_mut()
                .map(|keys| Arc::new(keys.finish()) as ArrayRef),
        );
        columns.push(Arc::new(self.values.finish()));
        columns.push(Arc::new(self.timestamps.finish()));
        columns.push(Arc::new(self.valid_to.finish()));
        Ok(columns)
    }

    /// Returns the batch.
    ///
    /// # Errors
    /// `InvalidValue` for 2 GiB or more of keys and values.
    pub fn finish(mut self, schema: &SchemaRef) -> Result<RecordBatch> {
        batch(Arc::clone(schema), self.columns()?)
    }

    /// Returns the batch with `column` before all others.
    ///
    /// # Errors
    /// As `finish`; `InvalidState` for a column of another length.
    pub fn finish_behind(mut self, field: Field, column: ArrayRef) -> Result<RecordBatch> {
        let mut fields = vec![Arc::new(field)];
        fields.extend(version_schema(false).fields().iter().cloned());
        let mut columns = vec![column];
        columns.extend(self.columns()?);
        batch(Arc::new(Schema::new(fields)), columns)
    }
}

/// Returns the next rows of a scan: at most `rows` but at least one, and none after the row that
/// brings their bytes to 64 MiB. Returns `None` at the end. `last` is of the same scan, or new.
///
/// # Errors
/// `InvalidValue` for 2 GiB or more of keys and values.
pub fn version_batch(
    scan: &mut VersionScan,
    rows: usize,
    schema: &SchemaRef,
    last: &mut LastBatch,
) -> Result<Option<RecordBatch>> {
    let mut columns = VersionColumns::with_keys(last);
    let mut count = 0;
    scan.for_each(&mut |key, version| {
        columns.append(Some(key), Some(version));
        count += 1;
        count < rows && columns.bytes < BATCH_BYTES
    })?;
    if count == 0 {
        return Ok(None);
    }
    if let Some(keys) = &columns.keys {
        last.note(keys, &columns.values);
    }
    columns.finish(schema).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use arrow_array::builder::ArrayBuilder;

    #[test]
    fn batch_of_2_gib_holds_no_row() {
        let version = Version {
            value: &[7; 100],
            timestamp: Timestamp(1),
            valid_to: None,
        };
        let mut columns = VersionColumns::with_keys(&LastBatch::default());
        columns.append(Some(b"key"), Some(version));
        assert_eq!(columns.values.len(), 1);
        // As after almost 2 GiB of rows.
        columns.bytes = i32::MAX as usize - 1;
        for row in 1..3 {
            columns.append(Some(b"key"), Some(version));
            let held = [
                columns.keys.as_ref().map_or(0, ArrayBuilder::len),
                columns.values.len(),
                columns.timestamps.len(),
                columns.valid_to.len(),
            ];
            assert_eq!(held, [0; 4], "row {row}");
        }
        let error = columns
            .finish(&version_schema(true))
            .expect_err("more than a column holds");
        assert_eq!(error.kind(), ErrorKind::InvalidValue);
    }
}
