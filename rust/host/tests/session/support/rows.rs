//! Rows of the input and of the result.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMicrosecondType};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray, new_null_array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

/// A row of the input: the table's (`Right`) or the stream's (`Left`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Row {
    Right {
        key: Option<String>,
        time: Option<i64>,
        rate: i64,
        deleted: bool,
    },
    Left {
        key: Option<String>,
        time: Option<i64>,
        id: i64,
    },
}

pub fn right(key: &str, time: i64, rate: i64) -> Row {
    Row::Right {
        key: Some(key.into()),
        time: Some(time),
        rate,
        deleted: false,
    }
}

pub fn deleted(key: &str, time: i64) -> Row {
    Row::Right {
        key: Some(key.into()),
        time: Some(time),
        rate: 0,
        deleted: true,
    }
}

pub fn left(key: &str, time: i64, id: i64) -> Row {
    Row::Left {
        key: Some(key.into()),
        time: Some(time),
        id,
    }
}

/// A row of the result: the left id, the matched rate and its time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Joined {
    pub id: i64,
    pub rate: Option<i64>,
    pub valid_from: Option<i64>,
}

pub fn matched(id: i64, rate: i64, valid_from: i64) -> Joined {
    Joined {
        id,
        rate: Some(rate),
        valid_from: Some(valid_from),
    }
}

pub fn unmatched(id: i64) -> Joined {
    Joined {
        id,
        rate: None,
        valid_from: None,
    }
}

pub fn schema() -> SchemaRef {
    let field = |name: &str, data_type| Field::new(name, data_type, true);
    Arc::new(Schema::new(vec![
        field("pid", DataType::Int32),
        field("side", DataType::Boolean),
        field("deleted", DataType::Boolean),
        field(
            "t",
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        ),
        field("k0", DataType::Utf8),
        field("l0", DataType::Int64),
        field("r0", DataType::Int64),
        field("r1", DataType::Utf8),
    ]))
}

/// A heartbeat: a row in which only `pid` and the time are not null.
pub fn heartbeat(pid: i32, time: i64) -> RecordBatch {
    let row = batch(pid, &[left("", time, 0)]);
    let schema = row.schema();
    let columns = row
        .columns()
        .iter()
        .zip(schema.fields())
        .map(|(column, field)| match field.name().as_str() {
            "pid" | "t" => Arc::clone(column),
            _ => new_null_array(field.data_type(), 1),
        });
    RecordBatch::try_new(Arc::clone(&schema), columns.collect()).unwrap()
}

pub fn batch(pid: i32, rows: &[Row]) -> RecordBatch {
    let side: BooleanArray = rows
        .iter()
        .map(|row| Some(matches!(row, Row::Left { .. })))
        .collect();
    let deleted: BooleanArray = rows
        .iter()
        .map(|row| Some(matches!(row, Row::Right { deleted: true, .. })))
        .collect();
    let time = |row: &Row| match row {
        Row::Right { time, .. } | Row::Left { time, .. } => *time,
    };
    let key = |row: &Row| match row {
        Row::Right { key, .. } | Row::Left { key, .. } => key.clone(),
    };
    let id = |row: &Row| {
        if let Row::Left { id, .. } = row {
            Some(*id)
        } else {
            None
        }
    };
    let rate = |row: &Row| {
        if let Row::Right { rate, .. } = row {
            Some(*rate)
        } else {
            None
        }
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![pid; rows.len()])),
        Arc::new(side),
        Arc::new(deleted),
        Arc::new(
            rows.iter()
                .map(time)
                .collect::<TimestampMicrosecondArray>()
                .with_timezone("UTC"),
        ),
        Arc::new(rows.iter().map(key).collect::<StringArray>()),
        Arc::new(rows.iter().map(id).collect::<Int64Array>()),
        Arc::new(rows.iter().map(rate).collect::<Int64Array>()),
        // A value column that is null for odd rates.
        Arc::new(
            rows.iter()
                .map(|row| {
                    rate(row)
                        .filter(|rate| rate % 2 == 0)
                        .map(|rate| format!("note {rate}"))
                })
                .collect::<StringArray>(),
        ),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// The start and the count of each window in the output of [`count_windows`](super::count_windows).
pub fn counted(batches: &[RecordBatch]) -> Vec<(i64, i64)> {
    let of_batch = |batch: &RecordBatch| {
        let starts = batch.column(1).as_primitive::<TimestampMicrosecondType>();
        let counts = batch["rows"].as_primitive::<Int64Type>();
        let windows = starts.values().iter().zip(counts.values());
        windows
            .map(|(start, count)| (*start, *count))
            .collect::<Vec<_>>()
    };
    batches.iter().flat_map(of_batch).collect()
}

pub fn joined(batch: &RecordBatch) -> Vec<Joined> {
    let ids = batch["id"].as_primitive::<Int64Type>();
    let rates = batch["rate"].as_primitive::<Int64Type>();
    let times = batch["valid_from"].as_primitive::<TimestampMicrosecondType>();
    let notes = batch["note"].as_string::<i32>();
    let row = |row: usize| {
        let rate = rates.is_valid(row).then(|| rates.value(row));
        let note = notes.is_valid(row).then(|| notes.value(row).to_owned());
        assert_eq!(
            note,
            rate.filter(|rate| rate % 2 == 0)
                .map(|rate| format!("note {rate}")),
            "the value's columns belong together"
        );
        Joined {
            id: ids.value(row),
            rate,
            valid_from: times.is_valid(row).then(|| times.value(row)),
        }
    };
    (0..batch.num_rows()).map(row).collect()
}
