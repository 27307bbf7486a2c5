//! Rows as batches, and batches as numbers.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use super::rows::Row;

/// A row of the result: its columns as numbers.
pub type Out = Vec<Option<i64>>;

/// The input's columns.
pub fn schema(sides: usize) -> SchemaRef {
    let field = |name: &str, data_type| Field::new(name, data_type, true);
    let mut fields = vec![
        field("pid", DataType::Int32),
        field("side", DataType::Boolean),
        field("deleted", DataType::Boolean),
        field(
            "t",
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        ),
        field("k0", DataType::Utf8),
        field("l0", DataType::Int64),
    ];
    fields.extend((1..sides).map(|_| field("r0", DataType::Int64)));
    Arc::new(Schema::new(fields))
}

/// Rows as a batch of these columns.
pub fn batch_of(schema: &SchemaRef, rows: &[Row]) -> RecordBatch {
    let number = |left: bool| -> ArrayRef {
        Arc::new(
            rows.iter()
                .map(|row| row.number.filter(|_| row.left == left))
                .collect::<Int64Array>(),
        )
    };
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![0; rows.len()])),
        Arc::new(
            rows.iter()
                .map(|row| Some(row.left))
                .collect::<BooleanArray>(),
        ),
        Arc::new(
            rows.iter()
                .map(|row| (!row.left).then_some(false))
                .collect::<BooleanArray>(),
        ),
        Arc::new(
            rows.iter()
                .map(|row| row.time)
                .collect::<TimestampMicrosecondArray>()
                .with_timezone("UTC"),
        ),
        Arc::new(
            rows.iter()
                .map(|row| row.key.map(|key| key.to_string()))
                .collect::<StringArray>(),
        ),
        number(true),
    ];
    if schema.fields().len() > columns.len() {
        columns.push(number(false));
    }
    RecordBatch::try_new(Arc::clone(schema), columns).unwrap()
}

pub fn numbers(batch: &RecordBatch) -> Vec<Out> {
    let cell = |column: &ArrayRef, row: usize| match column.data_type() {
        _ if column.is_null(row) => None,
        DataType::Utf8 => Some(column.as_string::<i32>().value(row).parse().unwrap()),
        DataType::Int64 => Some(column.as_primitive::<Int64Type>().value(row)),
        DataType::Float64 => Some(float(column.as_primitive::<Float64Type>().value(row))),
        DataType::List(_) => Some(list(
            column
                .as_list::<i32>()
                .value(row)
                .as_primitive::<Int64Type>()
                .values()
                .iter()
                .copied(),
        )),
        _ => Some(column.as_primitive::<TimestampMicrosecondType>().value(row)),
    };
    (0..batch.num_rows())
        .map(|row| {
            batch
                .columns()
                .iter()
                .map(|column| cell(column, row))
                .collect()
        })
        .collect()
}

/// The bits of a float as a number.
pub fn float(value: f64) -> i64 {
    value.to_bits().cast_signed()
}

/// A list as one number.
pub fn list(values: impl IntoIterator<Item = i64>) -> i64 {
    values.into_iter().fold(1, |hash: i64, value| {
        hash.wrapping_mul(1_000_003).wrapping_add(value)
    })
}
