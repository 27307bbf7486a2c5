//! Both stages of a join by a foreign key.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Int8Array, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray, new_null_array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use serde_json::{Value, json};

use crate::support::{Job, Out, Row, numbers};

/// The foreign key of a left row with this number.
pub fn foreign(number: Option<i64>) -> Option<i64> {
    number
        .map(|number| number % 4)
        .filter(|foreign| *foreign < 3)
}

fn columns(fields: &[(&str, DataType)]) -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let fixed = [
        ("pid", DataType::Int32),
        ("side", DataType::Boolean),
        ("deleted", DataType::Boolean),
        ("t", time),
    ];
    let all = fixed.into_iter().chain(fields.iter().cloned());
    Arc::new(Schema::new(
        all.map(|(name, data_type)| Field::new(name, data_type, true))
            .collect::<Vec<Field>>(),
    ))
}

/// The request of the first stage, and the columns of its input.
pub fn first_stage(how: &str, retention: i64) -> (Value, SchemaRef) {
    let request = json!({
        "kind": "foreign_left", "keys": ["k"], "left": ["f", "x"],
        "right": ["action", "number"], "how": how,
        "history_retention": retention, "values": [0, 1], "foreign": [0],
        "output": [
            {"name": "k", "from": "key", "index": 0}, {"name": "t", "from": "time"},
            {"name": "f", "from": "left", "index": 0},
            {"name": "x", "from": "left", "index": 1},
            {"name": "action", "from": "right", "index": 0},
            {"name": "number", "from": "right", "index": 1},
        ],
    });
    (request, first_columns())
}

/// The columns of the first stage's input.
fn first_columns() -> SchemaRef {
    let (text, long, tiny) = (DataType::Utf8, DataType::Int64, DataType::Int8);
    let fields = [
        ("k0", text),
        ("l0", long.clone()),
        ("l1", long.clone()),
        ("r0", tiny),
        ("r1", long),
    ];
    columns(&fields)
}

/// The request of the second stage, and the columns of its input.
pub fn second_stage(how: &str, retention: i64) -> (Value, SchemaRef) {
    let request = json!({
        "kind": "foreign_join", "keys": ["f", "k"], "left": ["f", "x", "action", "number"],
        "right": ["v"], "order_left": [3],
        "how": how, "foreign": 1, "history_retention": retention, "action": 2,
        "right_values": [0],
        "output": [
            {"name": "k", "from": "key", "index": 1}, {"name": "t", "from": "time"},
            {"name": "x", "from": "left", "index": 1},
            {"name": "since", "from": "right_time"}, {"name": "v", "from": "right", "index": 0},
        ],
    });
    (request, second_columns())
}

/// The columns of the second stage's input.
fn second_columns() -> SchemaRef {
    let (text, long, tiny) = (DataType::Utf8, DataType::Int64, DataType::Int8);
    let fields = [
        ("k0", long.clone()),
        ("k1", text),
        ("l0", long.clone()),
        ("l1", long.clone()),
        ("l2", tiny),
        ("l3", long.clone()),
        ("r0", long),
    ];
    columns(&fields)
}

/// Both stages.
pub struct Both {
    first: Job,
    second: Job,
    epochs: u64,
}

impl Both {
    pub fn new(how: &str, retention: i64, partitions: usize) -> Self {
        let (first, first_columns) = first_stage(how, retention);
        let (second, second_columns) = second_stage(how, retention);
        Self {
            first: Job::over(&first, first_columns, partitions),
            second: Job::over(&second, second_columns, partitions),
            epochs: 0,
        }
    }

    /// Rows of the result: left key, left time, its number, right time, right number.
    pub fn epoch(&mut self, rows: &[Row], replay: bool) -> Vec<Out> {
        let partitions = self.first.databases.len();
        let mut parts: Vec<Vec<RecordBatch>> = vec![Vec::new(); partitions];
        let mut scatter = |batch: RecordBatch| {
            let keys = batch.column(4).as_primitive::<Int64Type>().clone();
            for (partition, part) in parts.iter_mut().enumerate() {
                let of = |row: usize| {
                    if keys.is_null(row) {
                        0
                    } else {
                        keys.value(row) as usize % partitions
                    }
                };
                let ours: BooleanArray = (0..batch.num_rows())
                    .map(|row| Some(of(row) == partition))
                    .collect();
                part.push(filter_record_batch(&batch, &ours).unwrap());
            }
        };
        for partition in 0..partitions {
            let lefts: Vec<Row> = rows
                .iter()
                .filter(|row| row.left && self.first.partition(row.key) == partition)
                .copied()
                .collect();
            for forwarded in self
                .first
                .partition_epoch(partition, &left_rows(&lefts), None, replay)
                .0
            {
                scatter(second_rows(&forwarded));
            }
        }
        let rights: Vec<Row> = rows.iter().filter(|row| !row.left).copied().collect();
        scatter(right_rows(&rights));
        let mut out = Vec::new();
        // The result must not depend on the order of the second stage's partitions.
        let order: Vec<usize> = if self.epochs.is_multiple_of(2) {
            (0..partitions).collect()
        } else {
            (0..partitions).rev().collect()
        };
        self.epochs += 1;
        for partition in order {
            let schema = parts[partition][0].schema();
            let input = concat_batches(&schema, &parts[partition]).unwrap();
            let (given, _) = self.second.partition_epoch(partition, &input, None, replay);
            out.extend(given.iter().flat_map(numbers));
        }
        out
    }
}

fn fixed(count: usize, left: bool, times: impl Iterator<Item = Option<i64>>) -> Vec<ArrayRef> {
    vec![
        Arc::new(Int32Array::from(vec![0; count])),
        Arc::new(BooleanArray::from(vec![left; count])),
        Arc::new(BooleanArray::from(vec![None; count])),
        Arc::new(
            times
                .collect::<TimestampMicrosecondArray>()
                .with_timezone("UTC"),
        ),
    ]
}

fn left_rows(rows: &[Row]) -> RecordBatch {
    let mut all = fixed(rows.len(), true, rows.iter().map(|row| row.time));
    all.push(Arc::new(
        rows.iter()
            .map(|row| row.key.map(|key| key.to_string()))
            .collect::<StringArray>(),
    ));
    all.push(Arc::new(
        rows.iter()
            .map(|row| foreign(row.number))
            .collect::<Int64Array>(),
    ));
    all.push(Arc::new(
        rows.iter().map(|row| row.number).collect::<Int64Array>(),
    ));
    all.extend([
        new_null_array(&DataType::Int8, rows.len()),
        new_null_array(&DataType::Int64, rows.len()),
    ]);
    RecordBatch::try_new(first_columns(), all).unwrap()
}

fn second(all: Vec<ArrayRef>) -> RecordBatch {
    RecordBatch::try_new(second_columns(), all).unwrap()
}

/// The output of the first stage as input of the second.
fn second_rows(forwarded: &RecordBatch) -> RecordBatch {
    let count = forwarded.num_rows();
    let mut all = fixed(count, true, std::iter::repeat_n(None, count));
    let column = |index: usize| Arc::clone(forwarded.column(index));
    all[3] = column(1);
    all.extend([
        column(2),
        column(0),
        column(2),
        column(3),
        column(4),
        column(5),
        new_null_array(&DataType::Int64, count),
    ]);
    assert!(
        forwarded
            .column(4)
            .as_primitive::<Int8Type>()
            .iter()
            .all(|action| action.is_some())
    );
    second(all)
}

fn right_rows(rows: &[Row]) -> RecordBatch {
    let (nulls, texts) = (
        new_null_array(&DataType::Int64, rows.len()),
        new_null_array(&DataType::Utf8, rows.len()),
    );
    let mut all = fixed(rows.len(), false, rows.iter().map(|row| row.time));
    all.push(Arc::new(
        rows.iter()
            .map(|row| row.key.map(i64::from))
            .collect::<Int64Array>(),
    ));
    all.extend([
        texts,
        Arc::clone(&nulls),
        Arc::clone(&nulls),
        Arc::new(Int8Array::from(vec![None; rows.len()])),
        nulls,
    ]);
    all.push(Arc::new(
        rows.iter().map(|row| row.number).collect::<Int64Array>(),
    ));
    second(all)
}
