//! The values of the rows with the greatest or the least orders, one or several.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, StructArray,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::model::{Kind, Settings, after, windows};
use crate::support::{Job, Out, Row, batch_of, cut, list, numbers, row, rows, schema, sorted};

/// The columns of [`batch_of`], with a column of orders.
fn with_orders(order: DataType) -> SchemaRef {
    let mut fields: Vec<Field> = schema(1).fields().iter().map(|f| (**f).clone()).collect();
    fields.push(Field::new("l1", order, true));
    Arc::new(Schema::new(fields))
}

/// The order of a row: many rows have the same one, and some have none.
fn order(row: &Row) -> Option<i64> {
    row.number
        .map(|number| number % 7)
        .filter(|order| *order < 5)
}

fn batch(rows: &[Row]) -> RecordBatch {
    let mut columns = batch_of(&schema(1), rows).columns().to_vec();
    columns.push(Arc::new(rows.iter().map(order).collect::<Int64Array>()));
    RecordBatch::try_new(with_orders(DataType::Int64), columns).unwrap()
}

fn request(settings: &Value) -> Value {
    let mut request = json!({"kind": "aggregate", "keys": ["k"], "timed": true});
    request
        .as_object_mut()
        .unwrap()
        .extend(settings.as_object().unwrap().clone());
    request["aggregates"] = json!([
        {"name": "most", "function": "max_by", "column": 0, "order": 1},
        {"name": "least", "function": "min_by", "column": 0, "order": 1},
        {"name": "top", "function": "max_by", "column": 0, "order": 1, "limit": 3},
        {"name": "bottom", "function": "min_by", "column": 0, "order": 1, "limit": 4},
    ]);
    request["left"] = json!(["x", "o"]);
    request
}

/// The results over these rows, by their definition.
fn results(members: &[Row]) -> Out {
    let ranked = members
        .iter()
        .filter_map(|row| Some((order(row)?, row.number?)));
    let ascending = sorted(ranked);
    vec![
        ascending.last().map(|(_, value)| *value),
        ascending.first().map(|(_, value)| *value),
        values(ascending.iter().rev().take(3)),
        values(ascending.iter().take(4)),
    ]
}

/// The values of some rows as a list; null if there are none.
fn values<'a>(rows: impl Iterator<Item = &'a (i64, i64)>) -> Option<i64> {
    let values: Vec<i64> = rows.map(|(_, value)| *value).collect();
    (!values.is_empty()).then(|| list(values))
}

fn emitted(job: &Job, rows: &[Row], replay: bool) -> Vec<Out> {
    let (out, _) = job.partition_epoch(0, &batch(rows), None, replay);
    out.iter().flat_map(numbers).collect()
}

fn by_key(rows: &[Row]) -> BTreeMap<Option<u8>, Vec<Row>> {
    let mut by_key: BTreeMap<_, Vec<Row>> = BTreeMap::new();
    rows.iter()
        .for_each(|row| by_key.entry(row.key).or_default().push(*row));
    by_key
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn values_of_a_key_are_those_of_all_its_rows(
        epochs in rows(Just(true), 1, 50).prop_flat_map(|rows| cut(rows, 40)),
    ) {
        let job = Job::over(&request(&json!({})), with_orders(DataType::Int64), 1);
        let mut all = Vec::new();
        for (rows, replay) in &epochs {
            all.extend(rows.iter().copied());
            let whole = by_key(&all);
            let expected = by_key(rows).into_keys().map(|key| {
                let mut row = vec![key.map(i64::from)];
                row.extend(results(&whole[&key]));
                row
            });
            prop_assert_eq!(sorted(emitted(&job, rows, *replay)), sorted(expected));
        }
    }

    /// Sessions merge stored groups, and a sliding window is the union of groups.
    #[test]
    fn values_of_a_window_are_those_of_all_its_rows(
        epochs in rows(Just(true), 1, 50).prop_flat_map(|rows| cut(rows, 10)),
        kind in prop::sample::select(vec![Kind::Hopping, Kind::Sliding, Kind::Session]),
    ) {
        let request = request(&Settings::new(kind, "close", 10).request());
        let job = Job::over(&request, with_orders(DataType::Int64), 1);
        let mut found = Vec::new();
        let mut all = Vec::new();
        for (rows, replay) in &epochs {
            found.extend(emitted(&job, rows, *replay));
            all.extend(rows.iter().copied().filter(|row| row.time.is_some()));
        }
        found.extend(emitted(&job, &[row(100, 10_000, 0)], false));
        let of_key = |(key, rows): (Option<u8>, Vec<Row>)| {
            windows(kind, &rows).into_iter().map(move |(start, members)| {
                let end = after(kind, start, &members) - i64::from(kind != Kind::Hopping);
                let mut row = vec![key.map(i64::from), Some(start), Some(end)];
                row.extend(results(&members));
                row
            }).collect::<Vec<_>>()
        };
        prop_assert_eq!(sorted(found), sorted(by_key(&all).into_iter().flat_map(of_key)));
    }
}

#[test]
fn orders_are_compared_as_in_sql() {
    let last = |orders: [f64; 3], expected: i64| {
        let rows: Vec<Row> = (1..=3).map(|number| row(1, 0, number)).collect();
        let mut columns = batch_of(&schema(1), &rows).columns().to_vec();
        columns.push(Arc::new(Float64Array::from(orders.to_vec())));
        let batch = RecordBatch::try_new(with_orders(DataType::Float64), columns).unwrap();
        let job = Job::over(&request(&json!({})), with_orders(DataType::Float64), 1);
        let (out, _) = job.partition_epoch(0, &batch, None, false);
        assert_eq!(numbers(&out[0])[0][1], Some(expected), "{orders:?}");
    };
    last([1.0, f64::INFINITY, -f64::NAN], 3);
    last([-f64::NAN, f64::INFINITY, 1.0], 1);
    // Equal orders: the greatest value.
    last([0.0, -0.0, -1.0], 2);
    last([f64::NAN, -f64::NAN, f64::NAN], 3);
}

fn structs(fields: Vec<(&str, ArrayRef)>) -> StructArray {
    let field = |(name, values): (&str, ArrayRef)| {
        let field = Field::new(name, values.data_type().clone(), true);
        (Arc::new(field), values)
    };
    StructArray::from(fields.into_iter().map(field).collect::<Vec<_>>())
}

/// Rows with these values.
fn with_values(rows: &[Row], values: StructArray) -> RecordBatch {
    let mut fields: Vec<Field> = with_orders(DataType::Int64)
        .fields()
        .iter()
        .map(|field| (**field).clone())
        .collect();
    fields[5] = Field::new("l0", values.data_type().clone(), true);
    let mut columns = batch(rows).columns().to_vec();
    columns[5] = Arc::new(values);
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

#[test]
fn zeros_inside_equal_orders_do_not_decide_before_later_fields() {
    let of = |zeros: &[f64], names: &[&str]| {
        structs(vec![
            ("zero", Arc::new(Float64Array::from(zeros.to_vec()))),
            ("name", Arc::new(StringArray::from(names.to_vec()))),
        ])
    };
    // Both orders are 1.
    let given = [row(1, 0, 1), row(1, 0, 8)];
    let batch = with_values(&given, of(&[-0.0, 0.0], &["z", "a"]));
    let job = Job::over(&request(&json!({})), batch.schema(), 1);
    let found = |rows: &RecordBatch| {
        let (out, _) = job.partition_epoch(0, rows, None, false);
        [1, 2].map(|column| out[0].column(column).to_data())
    };
    let (most, least) = (of(&[-0.0], &["z"]), of(&[0.0], &["a"]));
    assert_eq!(found(&batch), [most.to_data(), least.to_data()]);
    // With the state of the epoch before.
    let middle = with_values(&given[..1], of(&[0.0], &["m"]));
    assert_eq!(found(&middle), [most.to_data(), least.to_data()]);
    // If all fields are equal, -0.0 is less than 0.0.
    let equal = with_values(&given, of(&[0.0, -0.0], &["z", "a"]));
    let (most, least) = (of(&[0.0], &["z"]), of(&[-0.0], &["a"]));
    assert_eq!(found(&equal), [most.to_data(), least.to_data()]);
}

#[test]
fn a_value_may_be_a_struct_or_null() {
    let structs = |a: Vec<Option<&str>>, b: Vec<Option<f64>>| {
        structs(vec![
            ("a", Arc::new(StringArray::from(a))),
            ("b", Arc::new(Float64Array::from(b))),
        ])
    };
    let value = structs(vec![Some("x"), None], vec![None, Some(-0.0)]);
    let batch = with_values(&[row(1, 0, 1), row(1, 0, 2)], value);
    let schema = batch.schema();
    let job = Job::over(&request(&json!({})), Arc::clone(&schema), 1);
    let (out, _) = job.partition_epoch(0, &batch, None, true);
    let (most, least) = (out[0].column(1), out[0].column(2));
    assert_eq!(
        most.as_ref(),
        &structs(vec![None], vec![Some(-0.0)]) as &dyn Array
    );
    assert_eq!(
        least.as_ref(),
        &structs(vec![Some("x")], vec![None]) as &dyn Array
    );
    // The state of the epoch before has the greatest order.
    let mut columns = batch.slice(0, 1).columns().to_vec();
    columns[6] = Arc::new(Int64Array::from(vec![0]));
    columns[5] = arrow_array::new_null_array(columns[5].data_type(), 1);
    let (out, _) = job.partition_epoch(
        0,
        &RecordBatch::try_new(schema, columns).unwrap(),
        None,
        false,
    );
    assert_eq!(
        out[0].column(1).as_ref(),
        &structs(vec![None], vec![Some(-0.0)]) as &dyn Array
    );
    assert!(out[0].column(2).is_null(0), "null is a value");
}

#[test]
fn a_ranked_function_without_an_order_is_refused() {
    let start = |aggregate: Value| {
        let mut request = request(&json!({}));
        request["aggregates"] = json!([aggregate]);
        let kind: holdfast_host::operator::OperatorKind = serde_json::from_value(request).unwrap();
        let error = kind.spec().start(&with_orders(DataType::Int64)).err();
        error.expect("refused").to_string()
    };
    let error = start(json!({"name": "n", "function": "max_by", "column": 0}));
    assert!(error.contains("\"n\" needs an order"), "{error}");
    let error = start(json!({"name": "n", "function": "max", "column": 0, "order": 1}));
    assert!(
        error.contains("\"n\" has an order, and max takes none"),
        "{error}"
    );
    let error = start(json!({"name": "n", "function": "min_by", "column": 0, "order": 2}));
    assert!(
        error.contains("input column 2, which does not exist"),
        "{error}"
    );
    for (function, limit) in [("max_by", 0), ("max_by", 1_001), ("max", 2)] {
        let ranked = json!({"name": "n", "function": function, "column": 0, "order": 1,
            "limit": limit});
        let error = start(ranked);
        assert!(
            error.contains(&format!("\"n\" is {limit} values")),
            "{error}"
        );
    }
}

/// Without the record of the function, nothing could read the table of the groups.
#[test]
fn an_order_whose_type_a_root_cannot_record_is_refused() {
    let start = |name: &str| {
        let field = Field::new(name, DataType::Int64, true);
        let kind: holdfast_host::operator::OperatorKind =
            serde_json::from_value(request(&json!({}))).unwrap();
        kind.spec()
            .start(&with_orders(DataType::Struct(vec![field].into())))
            .err()
    };
    assert!(start("net gross").is_none());
    let error = start("net\\gross").expect("refused").to_string();
    assert!(error.contains("rename the field"), "{error}");
}
