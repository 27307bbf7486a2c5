//! Tables of a change stream, against maps.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{Float64Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use holdfast_core::{Step, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{Job, Out, Row, batch_of, cut, numbers, row, rows, schema, sorted};

const RETENTION: i64 = 20;

fn request(table: &Value) -> Value {
    json!({
        "kind": "materialize", "keys": ["k"], "left": ["x"], "values": [0], "table": table,
        "output": [{"name": "k", "from": "key", "index": 0}, {"name": "t", "from": "time"},
            {"name": "x", "from": "left", "index": 0}],
    })
}

fn job(table: &Value) -> Job {
    Job::new(&request(table), 1, 1)
}

fn out(rows: &[Row]) -> Vec<Out> {
    rows.iter()
        .map(|row| vec![row.key.map(i64::from), row.time, row.number])
        .collect()
}

fn deleted(key: u8, time: i64) -> Row {
    Row {
        number: None,
        ..row(key, time, 0)
    }
}

fn versioned() -> Value {
    json!({"form": "versioned", "history_retention": RETENTION})
}

/// In a frame with the columns `k` (double), `x` and `t`, `k` is the key and also a payload column.
/// The bits of `k` differ between the two rows, although their keys are equal.
#[test]
fn delete_comes_before_a_value_whatever_the_bits_of_its_key() {
    let mut request = request(&json!({"form": "timestamped"}));
    request["left"] = json!(["k", "x"]);
    request["values"] = json!([1]);
    let fields = [("k0", DataType::Float64), ("l0", DataType::Float64)];
    let mut columns = schema(1).fields()[..4].to_vec();
    columns.extend(fields.map(|(name, data_type)| Arc::new(Field::new(name, data_type, true))));
    columns.push(Arc::new(Field::new("l1", DataType::Int64, true)));
    let columns: SchemaRef = Arc::new(Schema::new(columns));
    for (key, bits) in [
        (0.0, [0.0, -0.0]),
        (0.0, [-0.0, 0.0]),
        (f64::NAN, [f64::NAN, -f64::NAN]),
        (f64::NAN, [-f64::NAN, f64::NAN]),
    ] {
        let fixed = batch_of(&schema(1), &[row(1, 5, 0), row(1, 5, 0)]);
        let mut rows = fixed.columns()[..4].to_vec();
        rows.push(Arc::new(Float64Array::from(vec![key; 2])));
        rows.push(Arc::new(Float64Array::from(bits.to_vec())));
        rows.push(Arc::new(Int64Array::from(vec![None, Some(5)])));
        let rows = RecordBatch::try_new(Arc::clone(&columns), rows).unwrap();
        let job = Job::over(&request, Arc::clone(&columns), 1);
        job.partition_epoch(0, &rows, None, true);
        assert_eq!(keys(&job, true), 1, "{bits:?}");
    }
}

/// The times of the versions that were current between two times.
fn versions(job: &Job, from: i64, to: i64) -> Vec<i64> {
    let mut tx = job.databases[0].begin().unwrap();
    let mut times = Vec::new();
    let mut scan = job.databases[0]
        .versioned("table")
        .unwrap()
        .versions_range(&mut tx, None, None, Timestamp(from), Timestamp(to))
        .unwrap();
    scan.for_each(&mut |_, version| {
        times.push(version.timestamp.0);
        true
    })
    .unwrap();
    times
}

/// How many keys a table without history has.
fn keys(job: &Job, timestamped: bool) -> usize {
    let mut tx = job.databases[0].begin().unwrap();
    let mut keys = 0;
    if timestamped {
        let mut scan = job.databases[0]
            .timestamped_key_value("table")
            .unwrap()
            .range(&mut tx, None, None, false)
            .unwrap();
        scan.for_each(&mut |_, _| {
            keys += 1;
            true
        })
        .unwrap();
    } else {
        let mut scan = job.databases[0]
            .key_value("table")
            .unwrap()
            .range(&mut tx, None, None, false)
            .unwrap();
        scan.for_each(&mut |_, _| {
            keys += 1;
            Step::Next
        })
        .unwrap();
    }
    keys
}

/// The times in a timestamped table, ascending.
fn times(job: &Job) -> Vec<i64> {
    let mut tx = job.databases[0].begin().unwrap();
    let table = job.databases[0].timestamped_key_value("table").unwrap();
    let mut times = Vec::new();
    let mut scan = table.range(&mut tx, None, None, false).unwrap();
    scan.for_each(&mut |_, row| {
        times.push(row.timestamp.0);
        true
    })
    .unwrap();
    times.sort_unstable();
    times
}

#[test]
fn a_key_value_table_has_the_last_row_to_arrive() {
    let job = job(&json!({"form": "key_value"}));
    let untimed = |key, number| Row {
        time: None,
        ..row(key, 0, number)
    };
    assert_eq!(
        job.epoch(&[untimed(1, 5), untimed(2, 5)], false).rows,
        out(&[untimed(1, 5), untimed(2, 5)])
    );
    let delete = Row {
        number: None,
        ..untimed(1, 0)
    };
    assert_eq!(job.epoch(&[delete], true).rows, out(&[delete]));
    assert_eq!(keys(&job, false), 1);
}

#[test]
fn a_timestamped_table_refuses_older_rows_and_accepts_equal_times() {
    let job = job(&json!({"form": "timestamped"}));
    job.epoch(&[row(1, 10, 1)], false);
    let done = job.epoch(&[row(1, 9, 2), row(1, 10, 3), row(2, 1, 4)], true);
    assert_eq!(
        (done.rows, done.counts.late),
        (out(&[row(2, 1, 4), row(1, 10, 3)]), 1)
    );
    job.epoch(&[deleted(1, 11)], true);
    assert_eq!(keys(&job, true), 1);
}

#[test]
fn a_versioned_table_accepts_late_rows_within_its_history() {
    // A record older than the history is neither stored nor forwarded.
    let job = job(&versioned());
    job.epoch(&[row(1, 100, 1)], false);
    let done = job.epoch(&[row(1, 80, 2), row(1, 79, 3), deleted(1, 90)], true);
    assert_eq!(
        (done.rows, done.counts.late),
        (out(&[row(1, 80, 2), deleted(1, 90)]), 1)
    );
    assert_eq!(versions(&job, 0, 200), [80, 100]);
    assert_eq!(versions(&job, 90, 99), Vec::<i64>::new());
}

#[test]
fn rows_without_a_key_or_a_time_are_dropped() {
    let job = job(&versioned());
    let done = job.epoch(
        &[
            Row {
                key: None,
                ..row(0, 1, 1)
            },
            Row {
                time: None,
                ..row(1, 0, 1)
            },
        ],
        false,
    );
    assert_eq!((done.rows, done.counts.dropped), (Vec::<Out>::new(), 2));
}

#[test]
fn a_row_older_than_a_delete_restores_its_key_only_without_a_history() {
    for (table, is_back) in [(json!({"form": "timestamped"}), true), (versioned(), false)] {
        let job = job(&table);
        job.epoch(&[row(1, 2, 10)], false);
        job.epoch(&[deleted(1, 5)], false);
        assert_eq!(
            job.epoch(&[row(1, 2, 11)], true).rows,
            out(&[row(1, 2, 11)])
        );
        assert_eq!(
            if is_back {
                keys(&job, true)
            } else {
                versions(&job, 5, 200).len()
            },
            usize::from(is_back),
            "{table}"
        );
    }
}

#[test]
fn the_last_row_by_order_by_wins_for_one_key_and_time() {
    let columns = |rows: &[Row], order: &[i64]| {
        let mut columns = batch_of(&schema(1), rows).columns().to_vec();
        columns.push(Arc::new(Int64Array::from(order.to_vec())));
        let fields = schema(1)
            .fields()
            .iter()
            .map(|field| Field::clone(field))
            .collect::<Vec<_>>();
        let schema = Schema::new([fields, vec![Field::new("l1", DataType::Int64, true)]].concat());
        RecordBatch::try_new(Arc::new(schema), columns).unwrap()
    };
    // Without `order_by`, the delete comes first: nulls sort before values.
    let rows = columns(&[deleted(1, 5), row(1, 5, 7)], &[2, 1]);
    for table in [
        json!({"form": "key_value"}),
        json!({"form": "timestamped"}),
        versioned(),
    ] {
        for (order, is_there) in [(json!([]), true), (json!([1]), false)] {
            let mut request = request(&table);
            request["left"] = json!(["x", "n"]);
            request["order_left"] = order;
            let job = Job::over(&request, rows.schema(), 1);
            let out = job.partition_epoch(0, &rows, None, true).0;
            assert_eq!(out.iter().flat_map(numbers).count(), 2);
            let found = match table["form"].as_str() {
                Some("versioned") => versions(&job, 5, 5).len(),
                form => keys(&job, form == Some("timestamped")),
            };
            assert_eq!(found, usize::from(is_there), "{request}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_versioned_table_accepts_the_rows_that_its_model_accepts(
        epochs in rows(Just(true), 1, 60).prop_flat_map(|rows| cut(rows, 40)),
        partitions in 1..4_usize,
    ) {
        let job = Job::new(&request(&versioned()), 1, partitions);
        let mut stream_times = vec![i64::MIN; partitions];
        for (rows, replay) in &epochs {
            let mut expected = Vec::new();
            for row in sorted(rows.iter().copied().filter(|row| row.key.is_some())) {
                let stream_time = &mut stream_times[job.partition(row.key)];
                if let Some(time) = row.time && time >= stream_time.saturating_sub(RETENTION) {
                    *stream_time = time.max(*stream_time);
                    expected.push(row);
                }
            }
            prop_assert_eq!(sorted(job.epoch(rows, *replay).rows), sorted(out(&expected)));
        }
    }

    #[test]
    fn a_timestamped_table_ends_with_the_newest_row_of_each_key(
        rows in rows(Just(true), 0, 60), chunk in 1..20_usize,
    ) {
        let job = job(&json!({"form": "timestamped"}));
        let mut newest: BTreeMap<Option<u8>, Row> = BTreeMap::new();
        let mut expected = Vec::new();
        for rows in rows.chunks(chunk) {
            for row in sorted(rows.iter().copied()) {
                if newest.get(&row.key).is_none_or(|row_before| row_before.time <= row.time) {
                    expected.push(row);
                    match row.number {
                        Some(_) => drop(newest.insert(row.key, row)),
                        None => drop(newest.remove(&row.key)),
                    }
                }
            }
        }
        let given: Vec<Out> = rows.chunks(chunk).flat_map(|rows| job.epoch(rows, false).rows)
            .collect();
        prop_assert_eq!(sorted(given), sorted(out(&expected)));
        let mut newest_times: Vec<i64> = newest.values().filter_map(|row| row.time).collect();
        newest_times.sort_unstable();
        prop_assert_eq!(times(&job), newest_times);
    }

    #[test]
    fn a_key_value_table_ends_with_the_keys_whose_last_row_has_a_value(
        rows in rows(Just(true), 0, 60), chunk in 1..20_usize,
    ) {
        let job = job(&json!({"form": "key_value"}));
        let mut last = BTreeMap::new();
        for rows in rows.chunks(chunk) {
            let done = job.epoch(rows, false).rows;
            prop_assert_eq!(done.len(), rows.len());
            last.extend(done.iter().map(|row| (row[0], row[2])));
        }
        prop_assert_eq!(keys(&job, false), last.values().flatten().count());
    }
}
