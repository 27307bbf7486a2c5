//! Functions of booleans: how often a condition is true, whether it always or ever is.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, BooleanArray, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use holdfast_host::operator::OperatorKind;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{Job, Row, batch_of, cut, row, rows, schema};

const FUNCTIONS: [&str; 3] = ["count_if", "bool_and", "bool_or"];

/// The columns of [`batch_of`], with a condition in place of the number.
fn with_condition() -> SchemaRef {
    let field = |field: &Arc<Field>| match field.name().as_str() {
        "l0" => Field::new("l0", DataType::Boolean, true),
        _ => field.as_ref().clone(),
    };
    let schema = schema(1);
    Arc::new(Schema::new(
        schema.fields().iter().map(field).collect::<Vec<Field>>(),
    ))
}

/// A row's condition: true, false or null.
fn condition(row: &Row) -> Option<bool> {
    row.number
        .filter(|number| number % 3 != 2)
        .map(|number| number % 3 == 0)
}

fn batch(rows: &[Row]) -> RecordBatch {
    let mut columns = batch_of(&schema(1), rows).columns().to_vec();
    columns[5] = Arc::new(rows.iter().map(condition).collect::<BooleanArray>());
    RecordBatch::try_new(with_condition(), columns).unwrap()
}

fn request(window: &Value) -> Value {
    let functions = FUNCTIONS.map(|name| json!({"name": name, "function": name, "column": 0}));
    json!({"kind": "aggregate", "keys": ["k"], "left": ["x"], "timed": true, "window": window,
        "aggregates": functions})
}

type Results = (i64, Option<bool>, Option<bool>);

/// The last results of each key. The keys of the rows are digits.
fn emitted(job: &Job, rows: &[Row], replay: bool, last: &mut BTreeMap<Option<u8>, Results>) {
    let (out, _) = job.partition_epoch(0, &batch(rows), None, replay);
    for batch in out {
        let first = batch.num_columns() - FUNCTIONS.len();
        let keys: &StringArray = batch.column(0).as_string();
        let flag = |column: usize, row: usize| {
            let flags = batch.column(first + column).as_boolean();
            flags.is_valid(row).then(|| flags.value(row))
        };
        for row in 0..batch.num_rows() {
            let key = keys.is_valid(row).then(|| keys.value(row).parse().unwrap());
            let count = batch.column(first).as_primitive::<Int64Type>().value(row);
            last.insert(key, (count, flag(1, row), flag(2, row)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A session that is longer than the range of the rows' times merges all rows of its key.
    #[test]
    fn results_are_those_of_all_rows(
        epochs in rows(Just(true), 1, 50).prop_flat_map(|rows| cut(rows, 40)),
        session in any::<bool>(),
    ) {
        // Only windows drop rows without a time.
        let rows = || epochs.iter().flat_map(|(rows, _)| rows)
            .filter(|row| row.time.is_some() || !session);
        let window = if session { json!({"kind": "session", "gap": 60}) } else { Value::Null };
        let job = Job::over(&request(&window), with_condition(), 1);
        let mut found = BTreeMap::new();
        for (rows, replay) in &epochs {
            emitted(&job, rows, *replay, &mut found);
        }
        let mut expected = BTreeMap::new();
        for key in rows().map(|row| row.key) {
            let conditions: Vec<bool> = rows().filter(|row| row.key == key)
                .filter_map(condition).collect();
            let count = conditions.iter().filter(|condition| **condition).count() as i64;
            let (least, most) = (conditions.iter().min(), conditions.iter().max());
            expected.insert(key, (count, least.copied(), most.copied()));
        }
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn a_condition_of_another_type_is_refused() {
    for function in FUNCTIONS {
        let mut request = request(&Value::Null);
        request["aggregates"] = json!([{"name": "n", "function": function, "column": 0}]);
        let kind: OperatorKind = serde_json::from_value(request).unwrap();
        assert!(kind.spec().start(&with_condition()).is_ok(), "{function}");
        let error = kind
            .spec()
            .start(&schema(1))
            .err()
            .expect("refused")
            .to_string();
        assert!(
            error.contains("column \"x\" is Int64"),
            "{function}: {error}"
        );
    }
}

#[test]
fn a_group_without_conditions_has_no_truth() {
    let job = Job::over(&request(&Value::Null), with_condition(), 1);
    let mut found = BTreeMap::new();
    emitted(&job, &[row(1, 0, 2), row(1, 0, 5)], false, &mut found);
    assert_eq!(found, BTreeMap::from([(Some(1), (0, None, None))]));
}
