//! Least, greatest, first and last values of each type that has a fixed width. The same values in a
//! struct are picked as bytes.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, DurationMicrosecondType, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef, BooleanArray, PrimitiveArray, RecordBatch, StructArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{Job, Row, batch_of, cut, rows, schema};

const FUNCTIONS: [&str; 4] = ["min", "max", "first", "last"];

fn types() -> Vec<DataType> {
    vec![
        DataType::Boolean,
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::Float32,
        DataType::Float64,
        DataType::Date32,
        DataType::Decimal128(38, 2),
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        DataType::Duration(TimeUnit::Microsecond),
    ]
}

/// A float for a number; many are special.
fn float(number: i64) -> f64 {
    match number % 8 {
        0 => -0.0,
        1 => 0.0,
        2 => f64::NAN,
        3 => -f64::NAN,
        4 => f64::NEG_INFINITY,
        _ => (number - 50) as f64 / 4.0,
    }
}

/// The rows' numbers, from 0 to 99, as values of a type.
fn values(data_type: &DataType, rows: &[Row]) -> ArrayRef {
    fn typed<T: ArrowPrimitiveType>(
        data_type: &DataType,
        rows: &[Row],
        of: impl Fn(i64) -> T::Native,
    ) -> ArrayRef {
        let numbers = rows.iter().map(|row| row.number.map(&of));
        let values: PrimitiveArray<T> = numbers.collect();
        Arc::new(values.with_data_type(data_type.clone()))
    }
    let wide = |number: i64| (number - 50) * 1_000_000_007;
    match data_type {
        DataType::Boolean => {
            let values = rows
                .iter()
                .map(|row| row.number.map(|number| number % 2 == 0));
            Arc::new(values.collect::<BooleanArray>())
        }
        DataType::Int8 => typed::<Int8Type>(data_type, rows, |n| (n - 50) as i8),
        DataType::Int16 => typed::<Int16Type>(data_type, rows, |n| (n - 50) as i16 * 300),
        DataType::Int32 => typed::<Int32Type>(data_type, rows, |n| (n - 50) as i32 * 70_000),
        DataType::Int64 => typed::<Int64Type>(data_type, rows, wide),
        DataType::Float32 => typed::<Float32Type>(data_type, rows, |n| float(n) as f32),
        DataType::Float64 => typed::<Float64Type>(data_type, rows, float),
        DataType::Date32 => typed::<Date32Type>(data_type, rows, |n| (n - 50) as i32 * 70_000),
        DataType::Decimal128(..) => typed::<Decimal128Type>(data_type, rows, |n| {
            i128::from(n - 50) * 1_000_000_007_i128.pow(3)
        }),
        DataType::Timestamp(..) => typed::<TimestampMicrosecondType>(data_type, rows, wide),
        DataType::Duration(_) => typed::<DurationMicrosecondType>(data_type, rows, wide),
        other => panic!("no values of {other}"),
    }
}

/// The same values, each in a struct.
fn structs(values: &ArrayRef) -> StructArray {
    let field = Field::new("v", values.data_type().clone(), true);
    let nulls = NullBuffer::from_iter((0..values.len()).map(|row| values.is_valid(row)));
    StructArray::new(
        Fields::from(vec![field]),
        vec![Arc::clone(values)],
        Some(nulls),
    )
}

/// The rows with their values, and with the same values in structs.
fn batch(data_type: &DataType, rows: &[Row]) -> RecordBatch {
    let mut columns = batch_of(&schema(1), rows).columns().to_vec();
    columns[5] = values(data_type, rows);
    columns.push(Arc::new(structs(&columns[5])));
    let mut fields: Vec<Field> = schema(1).fields().iter().map(|f| (**f).clone()).collect();
    fields[5] = Field::new("l0", data_type.clone(), true);
    fields.push(Field::new("l1", columns[6].data_type().clone(), true));
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

fn settings() -> [Value; 5] {
    [
        json!({"timed": true}),
        json!({"timed": false}),
        json!({"timed": true, "window": {"kind": "hopping", "length": 8, "slide": 3}}),
        json!({"timed": true, "window": {"kind": "sliding", "length": 8}}),
        json!({"timed": true, "window": {"kind": "session", "gap": 8}}),
    ]
}

fn request(settings: &Value) -> Value {
    let mut aggregates = Vec::new();
    for column in 0..2 {
        aggregates.extend(FUNCTIONS.map(|function| {
            json!({"name": format!("{function}{column}"), "function": function, "column": column})
        }));
    }
    let mut request = json!({"kind": "aggregate", "keys": ["k"], "left": ["x", "s"],
        "aggregates": aggregates, "grace": 40});
    let settings = settings.as_object().unwrap().clone();
    request.as_object_mut().unwrap().extend(settings);
    request
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn values_of_a_fixed_width_are_picked_as_those_in_a_struct(
        epochs in rows(Just(true), 1, 50).prop_flat_map(|rows| cut(rows, 40)),
        data_type in prop::sample::select(types()),
        settings in prop::sample::select(settings().to_vec()),
    ) {
        let job = Job::over(&request(&settings), batch(&data_type, &[]).schema(), 1);
        for (rows, replay) in &epochs {
            let (out, _) = job.partition_epoch(0, &batch(&data_type, rows), None, *replay);
            for batch in out {
                let first = batch.num_columns() - 2 * FUNCTIONS.len();
                for (n, function) in FUNCTIONS.iter().enumerate() {
                    let values = batch.column(first + n);
                    let in_structs = batch.column(first + FUNCTIONS.len() + n).as_struct();
                    prop_assert_eq!(values.data_type(), &data_type);
                    for row in 0..batch.num_rows() {
                        prop_assert_eq!(values.is_null(row), in_structs.is_null(row));
                        let expected = in_structs.column(0).slice(row, 1);
                        let is_same = values.is_null(row) || values.slice(row, 1) == expected;
                        prop_assert!(is_same, "{function}: {:?}, {:?}", values, in_structs);
                    }
                }
            }
        }
    }
}
