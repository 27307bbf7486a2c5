//! Record batches of a scan of a key-value store: keys, values and, if the store has them,
//! timestamps.

use crate::column::batch::{BATCH_BYTES, LastBatch, batch};
use crate::error::Result;
use crate::store::timestamped::StampedScan;
use crate::transaction::{Scan, Step};
use arrow_array::builder::Int64Builder;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::sync::Arc;

/// Returns the columns of a key-value store's rows.
pub fn key_value_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("key", DataType::Binary, false),
        Field::new("value", DataType::Binary, true),
    ]))
}

/// Returns the next rows of a scan: at most `rows` but at least one, and none after the row that
/// brings their bytes to 64 MiB. Returns `None` at the end. `last` is of the same scan, or new.
pub fn key_value_batch(
    scan: &mut Scan,
    rows: usize,
    schema: &SchemaRef,
    last: &mut LastBatch,
) -> Result<Option<RecordBatch>> {
    let [mut keys, mut values] = last.columns();
    let (mut count, mut size) = (0, 0);
    scan.for_each(&mut |key, value| {
        keys.append_value(key);
        values.append_value(value);
        count += 1;
        size += key.len() + value.len();
        if count >= rows || size >= BATCH_BYTES {
            Step::Pause
        } else {
            Step::Next
        }
    })?;
    if count == 0 {
        return Ok(None);
    }
    last.note(&keys, &values);
    let columns: Vec<ArrayRef> = vec![Arc::new(keys.finish()), Arc::new(values.finish())];
    batch(Arc::clone(schema), columns).map(Some)
}

/// Returns the columns of a timestamped key-value store's rows.
pub fn stamped_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("key", DataType::Binary, false),
        Field::new("value", DataType::Binary, true),
        Field::new("timestamp", DataType::Int64, true),
    ]))
}

/// Returns the next rows of a scan: at most `rows` but at least one, and none after the row that
/// brings their bytes to 64 MiB. Returns `None` at the end. `last` is of the same scan, or new.
pub fn stamped_batch(
    scan: &mut StampedScan,
    rows: usize,
    schema: &SchemaRef,
    last: &mut LastBatch,
) -> Result<Option<RecordBatch>> {
    let [mut keys, mut values] = last.columns();
    let mut timestamps = Int64Builder::with_capacity(last.rows);
    let (mut count, mut size) = (0, 0);
    scan.for_each(&mut |key, found| {
        keys.append_value(key);
        values.append_value(found.value);
        timestamps.append_value(found.timestamp.0);
        count += 1;
        size += key.len() + found.value.len();
        count < rows && size < BATCH_BYTES
    })?;
    if count == 0 {
        return Ok(None);
    }
    last.note(&keys, &values);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(keys.finish()),
        Arc::new(values.finish()),
        Arc::new(timestamps.finish()),
    ];
    batch(Arc::clone(schema), columns).map(Some)
}
