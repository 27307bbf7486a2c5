//! Epochs many times larger than their memory: an operator holds one part of such an epoch, and
//! gives the same results and the same changes as with all rows in memory.
//!
//! The stores are in files, so that transactions spill.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Int8Array, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray, new_null_array,
};
use arrow_schema::{DataType, SchemaRef};
use holdfast_core::{Commit, Database, DatabaseOptions, Durability, Timestamp};
use holdfast_host::cancellation::Cancellation;
use holdfast_host::memory::budget::Budget;
use holdfast_host::operator::OperatorKind;
use holdfast_host::operator::input::Intake;
use serde_json::{Value, json};

use crate::asof_grace;
use crate::join_foreign_key::stages::{first_stage, second_stage};
use crate::support::{RowHashes, most_held, schema};

/// The rows of an epoch: twenty parts of 10,000 rows.
const ROWS: usize = 200_000;
/// The rows of a batch of input.
const BATCH: usize = 1_000;
/// The memory for sorting, in bytes.
const SORTING: usize = 8 << 20;
/// The memory of the transaction, in bytes.
const UNCOMMITTED: usize = 1 << 20;

/// Returns the batch of an epoch's rows with these numbers.
type MakeBatch<'a> = &'a dyn Fn(i64, &[i64]) -> RecordBatch;

/// An operator, and how the rows of its epochs are made.
struct Epochs<'a> {
    request: &'a Value,
    schema: SchemaRef,
    batch: MakeBatch<'a>,
}

impl Epochs<'_> {
    /// Runs two epochs with limits and without. Checks that they do the same, and that less than a
    /// `part`th of the memory is enough with limits.
    fn check(&self, part: usize) {
        let (results, most) = self.run(SORTING, UNCOMMITTED);
        let (expected, unlimited) = self.run(usize::MAX, usize::MAX);
        assert_eq!(results, expected);
        assert!(
            most * part < unlimited,
            "{most} bytes with limits, {unlimited} without"
        );
    }

    /// Runs two epochs. Returns what each of them did, and the most memory that one of them took.
    fn run(&self, sorting: usize, uncommitted: usize) -> (Vec<String>, usize) {
        let kind: OperatorKind = serde_json::from_value(self.request.clone()).unwrap();
        let stores = kind.spec().stores();
        let (home, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let options = DatabaseOptions {
            durability: Durability::Changelog,
            ..DatabaseOptions::default()
        };
        let db = Database::open(home.path(), &stores, options).unwrap();
        let (mut results, mut most) = (Vec::new(), 0);
        for epoch in 0..2 {
            let mut tx = db.begin().unwrap();
            tx.limit_memory(uncommitted);
            let held = most_held(|| {
                let intake = Intake {
                    partition: Some(0),
                    memory: Budget::new(sorting),
                    folder: folder.path().to_owned(),
                    cancellation: Cancellation::default(),
                };
                let mut operator = kind.spec().start(&self.schema).unwrap();
                let numbers: Vec<i64> = (0..ROWS as i64).map(scattered).collect();
                for numbers in numbers.chunks(BATCH) {
                    operator
                        .push((self.batch)(epoch, numbers), &intake)
                        .unwrap();
                }
                let mut worker = RowHashes::default();
                let outcome = operator.run(&db, &mut tx, &mut worker).unwrap();
                // All rows of a second epoch may be duplicates.
                assert!(outcome.counts.output_rows > 0 || epoch > 0, "it gives rows");
                results.push(format!("{outcome:?}"));
                let spills = intake.memory.spills();
                assert_eq!(spills > 0, sorting < usize::MAX, "{spills} spills");
            });
            most = most.max(held);
            for store in &stores {
                let mut changes = DefaultHasher::new();
                db.for_each_change(&store.name, &mut tx, &mut |change| {
                    (change.key, change.value, change.timestamp.0).hash(&mut changes);
                    Ok(())
                })
                .unwrap();
                let time = db.stream_time(&store.name, &tx).unwrap();
                results.push(changes_of(&store.name, changes.finish(), time));
            }
            db.commit_transaction(tx, Commit::default()).unwrap();
        }
        (results, most)
    }
}

/// Checks two epochs of an operator, as [`Epochs::check`].
fn check(request: &Value, schema: &SchemaRef, batch: MakeBatch<'_>, part: usize) {
    let epochs = Epochs {
        request,
        schema: Arc::clone(schema),
        batch,
    };
    epochs.check(part);
}

fn changes_of(store: &str, changes: u64, stream_time: Option<Timestamp>) -> String {
    format!("changes of {store}: {changes:x}, stream time {stream_time:?}")
}

/// Numbers below [`ROWS`] in another order: each once.
fn scattered(number: i64) -> i64 {
    number * 7_919 % ROWS as i64
}

/// Rows of this side: the columns before the user's.
fn fixed(is_left: &[bool], times: impl Iterator<Item = i64>) -> Vec<ArrayRef> {
    let rows = is_left.len();
    vec![
        Arc::new(Int32Array::from(vec![0; rows])),
        Arc::new(BooleanArray::from(is_left.to_vec())),
        Arc::new(BooleanArray::from(vec![None; rows])),
        Arc::new(TimestampMicrosecondArray::from_iter_values(times).with_timezone("UTC")),
    ]
}

/// A number as a text of `length` bytes.
fn text(number: i64, length: usize) -> String {
    format!("{number:0>length$}")
}

#[test]
fn deduplication_holds_a_part_of_the_keys() {
    let request = json!({
        "kind": "drop_duplicates", "keys": ["k"], "left": ["x"], "within": 120_000,
        "output": [{"name": "k", "from": "key", "index": 0}, {"name": "t", "from": "time"},
            {"name": "x", "from": "left", "index": 0}],
    });
    let run = |key: fn(i64) -> i64, part: usize| {
        let batch = |epoch: i64, numbers: &[i64]| {
            // The second epoch has late rows, rows beside those of the first one, and later rows
            // by which rows of the first one expire.
            let times = || numbers.iter().map(move |number| number + epoch * 60_000);
            let mut columns = fixed(&vec![true; numbers.len()], times());
            let keys = times().map(|time| text(key(time), 200));
            columns.push(Arc::new(StringArray::from_iter_values(keys)));
            columns.push(Arc::new(Int64Array::from_iter_values(times())));
            RecordBatch::try_new(schema(1), columns).unwrap()
        };
        check(&request, &schema(1), &batch, part);
    };
    // Most keys come once in an epoch, some again within 120,000 and some again after it.
    run(
        |time| match time % 10 {
            0 => time % 70_000,
            1 => time % 130_000,
            _ => time,
        },
        5,
    );
    run(|_| 1, 3);
}

/// Checks an aggregation with these settings. `key` is the key of a row by its number.
fn check_aggregation(settings: &Value, key: fn(i64) -> i64, part: usize) {
    let mut request = json!({"kind": "aggregate", "keys": ["k"], "left": ["x"], "timed": true});
    let settings = settings.as_object().unwrap().clone();
    request.as_object_mut().unwrap().extend(settings);
    let batch = |epoch: i64, numbers: &[i64]| {
        // The second epoch has late rows, rows beside those of the first one, and later rows.
        let times = numbers.iter().map(|number| number / 3 + epoch * 40_000);
        let mut columns = fixed(&vec![true; numbers.len()], times);
        let keys = numbers.iter().map(|number| text(key(*number), 200));
        columns.push(Arc::new(StringArray::from_iter_values(keys)));
        columns.push(Arc::new(Int64Array::from(numbers.to_vec())));
        RecordBatch::try_new(schema(1), columns).unwrap()
    };
    check(&request, &schema(1), &batch, part);
}

/// Settings of an aggregation with a function of the user.
fn user_function(settings: &Value) -> Value {
    let mut all = json!({
        "aggregates": [{"name": "a", "function": "own"},
            {"name": "last", "function": "last", "column": 0}],
        "output": [{"name": "x", "from": "left", "index": 0}, {"name": "t", "from": "time"}],
    });
    let settings = settings.as_object().unwrap().clone();
    all.as_object_mut().unwrap().extend(settings);
    all
}

#[test]
fn aggregation_with_a_user_function_holds_a_part_of_the_rows() {
    let by_key = json!({"grace": 20_000});
    check_aggregation(&user_function(&by_key), |number| number % 1_000, 2);
    check_aggregation(&user_function(&by_key), |_| 1, 2);
    let hopping = json!({"grace": 20_000, "emit": "close",
        "window": {"kind": "hopping", "length": 15_000, "slide": 5_000}});
    check_aggregation(&user_function(&hopping), |number| number % 1_009, 2);
    let sessions = json!({"grace": 20_000, "window": {"kind": "session", "gap": 500}});
    check_aggregation(&user_function(&sessions), |number| number % 1_009, 2);
}

/// Settings of an aggregation with built-in functions.
fn built_in(functions: &[&str], settings: &Value) -> Value {
    let columns = functions.iter();
    let columns = columns.map(|name| json!({"name": name, "function": name, "column": 0}));
    let mut all = settings.clone();
    all["grace"] = json!(20_000);
    all["aggregates"] = columns.collect();
    all
}

#[test]
fn aggregation_by_key_holds_a_part_of_the_rows_and_of_the_groups() {
    let functions = ["count", "sum", "last", "collect_list"];
    let by_key = built_in(&functions[..3], &json!({}));
    check_aggregation(&by_key, |_| 1, 2);
    // Each row has a group of its own.
    check_aggregation(&by_key, |number| number, 3);
    // The values of a list are not in the state of its group.
    let lists = built_in(&functions, &json!({}));
    check_aggregation(&lists, |number| number % 1_000, 2);
}

#[test]
fn aggregation_by_window_holds_a_part_of_the_rows() {
    let functions = ["count", "sum", "last", "collect_list"];
    for emit in ["close", "update"] {
        let tumbling = json!({"kind": "hopping", "length": 5_000, "slide": 5_000});
        let tumbling = built_in(&functions[..3], &json!({"emit": emit, "window": tumbling}));
        check_aggregation(&tumbling, |number| number, 3);
        let hopping = json!({"kind": "hopping", "length": 15_000, "slide": 5_000});
        let hopping = built_in(&functions[..3], &json!({"emit": emit, "window": hopping}));
        check_aggregation(&hopping, |number| number % 1_009, 2);
    }
    let lists = json!({"emit": "close", "window": {"kind": "hopping", "length": 9, "slide": 9}});
    check_aggregation(&built_in(&functions, &lists), |number| number / 30 % 100, 1);
    let sessions = built_in(
        &functions,
        &json!({"window": {"kind": "session", "gap": 500}}),
    );
    check_aggregation(&sessions, |number| number % 1_009, 1);
}

#[test]
fn aggregation_by_sliding_window_and_by_short_sessions_holds_a_part_of_the_rows() {
    // Each time of a key is a group.
    let sliding = json!({"emit": "close", "window": {"kind": "sliding", "length": 3}});
    let sliding = built_in(&["count", "sum", "collect_list"], &sliding);
    check_aggregation(&sliding, |number| number / 30 % 100, 1);
    let sessions = json!({"emit": "close", "window": {"kind": "session", "gap": 2}});
    let sessions = built_in(&["count", "sum", "last"], &sessions);
    check_aggregation(&sessions, |number| number / 30 % 1_009, 1);
}

/// A row of the left table: key, time, foreign key, value.
type LeftRow = (i64, i64, Option<i64>, Option<i64>);

/// Checks the first stage of a join by a foreign key with these rows, by epoch and number.
fn check_first_stage(row: fn(i64, i64) -> LeftRow) {
    let (request, schema) = first_stage("left", 20_000);
    let batch = |epoch: i64, numbers: &[i64]| {
        let rows: Vec<LeftRow> = numbers.iter().map(|number| row(epoch, *number)).collect();
        let mut columns = fixed(&vec![true; rows.len()], rows.iter().map(|row| row.1));
        let keys = rows.iter().map(|row| text(row.0, 100));
        columns.push(Arc::new(StringArray::from_iter_values(keys)));
        columns.push(Arc::new(
            rows.iter().map(|row| row.2).collect::<Int64Array>(),
        ));
        columns.push(Arc::new(
            rows.iter().map(|row| row.3).collect::<Int64Array>(),
        ));
        columns.push(new_null_array(&DataType::Int8, rows.len()));
        columns.push(new_null_array(&DataType::Int64, rows.len()));
        RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()
    };
    check(&request, &schema, &batch, 2);
}

#[test]
fn first_stage_of_a_foreign_key_join_holds_a_part_of_the_rows() {
    // Three rows of each key and time, some of which are in two parts. Keys come again with another
    // foreign key, with none, and as deletes; the second epoch begins with late rows.
    check_first_stage(|epoch, number| {
        let time = number / 3 + epoch * 40_000;
        let is_deleted = time % 11 == 0;
        let foreign = Some(time / 7 % 5).filter(|foreign| *foreign < 4 && !is_deleted);
        (
            time % 20_000,
            time,
            foreign,
            Some(number).filter(|_| !is_deleted),
        )
    });
}

#[test]
fn first_stage_holds_a_part_of_the_rows_of_one_key_and_of_one_time() {
    check_first_stage(|_, number| (1, number / 3, Some(number / 30 % 5), Some(number)));
    check_first_stage(|epoch, number| (number / 3, epoch, Some(number % 5), Some(number)));
}

/// Checks the second stage of a join by a foreign key. `foreign` is the foreign key of a row by its
/// number, and `is_right` says which rows are right ones.
fn check_second_stage(foreign: fn(i64) -> Option<i64>, is_right: fn(i64) -> bool) {
    let (request, schema) = second_stage("left", 20_000);
    let batch = |epoch: i64, numbers: &[i64]| {
        let is_left: Vec<bool> = numbers.iter().map(|number| !is_right(*number)).collect();
        let times = numbers.iter().map(|number| number / 3 + epoch * 40_000);
        let of = |left: bool, value: fn(i64) -> Option<i64>| -> Vec<Option<i64>> {
            let rows = numbers.iter().zip(&is_left);
            rows.map(|(number, is_left)| value(*number).filter(|_| *is_left == left))
                .collect()
        };
        let column = |values: Vec<Option<i64>>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
        // What each action does with a key that it does not fit is defined, too.
        let actions = of(true, |number| {
            Some([0, 1, 1, 1, 2, 1, 3][number as usize % 7])
        });
        let actions = actions.into_iter().map(|action| action.map(|n| n as i8));
        let keys = of(true, |number| Some(number % 40_000)).into_iter();
        let keys = keys.map(|key| key.map(|key| text(key, 100)));
        let mut columns = fixed(&is_left, times);
        columns.push(column(
            numbers.iter().map(|number| foreign(*number)).collect(),
        ));
        columns.push(Arc::new(keys.collect::<StringArray>()));
        columns.push(column(of(true, foreign)));
        columns.push(column(of(true, Some)));
        columns.push(Arc::new(actions.collect::<Int8Array>()));
        columns.push(column(of(true, Some)));
        columns.push(column(of(false, |number| {
            Some(number).filter(|n| n % 1_000 > 0)
        })));
        RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()
    };
    check(&request, &schema, &batch, 2);
}

#[test]
fn second_stage_of_a_foreign_key_join_holds_a_part_of_the_rows() {
    check_second_stage(
        |number| Some(number % 20_011).filter(|foreign| foreign % 13 > 0),
        |number| number % 50 == 0,
    );
}

#[test]
fn second_stage_holds_a_part_of_the_rows_of_one_foreign_key() {
    check_second_stage(|_| Some(1), |number| number % (ROWS as i64 / 2) == 7);
}

/// A row of an as-of join: side, key, time.
type AsofRow = (bool, Option<i64>, i64);

/// Checks an as-of join of these rows, by epoch and number.
fn check_asof_join(how: &str, grace: i64, row: fn(i64, i64) -> AsofRow, part: usize) {
    let batch = |epoch: i64, numbers: &[i64]| {
        let rows: Vec<AsofRow> = numbers.iter().map(|number| row(epoch, *number)).collect();
        let is_left: Vec<bool> = rows.iter().map(|row| row.0).collect();
        let values = |left: bool| -> ArrayRef {
            let values = numbers.iter().zip(&is_left);
            let values = values.map(|(number, is_left)| (*is_left == left).then_some(*number));
            Arc::new(values.collect::<Int64Array>())
        };
        let mut columns = fixed(&is_left, rows.iter().map(|row| row.2));
        let keys = rows.iter().map(|row| row.1.map(|key| text(key, 100)));
        columns.push(Arc::new(keys.collect::<StringArray>()));
        columns.push(values(true));
        columns.push(values(false));
        RecordBatch::try_new(schema(2), columns).unwrap()
    };
    let request = asof_grace::request(how, 30_000, grace, false);
    check(&request, &schema(2), &batch, part);
}

/// Rows at three times each. One in fifteen is a right one, and some have no key. Left rows of the
/// first epoch go out in the second one, or get more rows of their keys and times.
fn asof_row(key: fn(i64) -> i64, epoch: i64, number: i64) -> AsofRow {
    let time = number / 3 + epoch * 10_000;
    let key = Some(key(time)).filter(|_| number % 1_000 != 5);
    (number % 15 != 0, key, time)
}

#[test]
fn asof_join_holds_a_part_of_the_rows() {
    for (how, grace) in [("left", 0), ("left", 15_000), ("inner", 15_000)] {
        let row = |epoch: i64, number: i64| asof_row(|time| time % 997, epoch, number);
        check_asof_join(how, grace, row, 2);
    }
}

#[test]
fn asof_join_holds_a_part_of_the_rows_of_one_key() {
    for grace in [0, 15_000] {
        let row = |epoch: i64, number: i64| asof_row(|_| 1, epoch, number);
        check_asof_join("left", grace, row, 2);
    }
}

/// Rows at two times. Left rows at the second one, nine of ten rows, wait.
fn asof_row_that_waits(key: i64, epoch: i64, number: i64) -> AsofRow {
    let time = 20_000 * (2 * epoch + i64::from(number % 10 > 0));
    (number % 30 > 0, Some(key), time)
}

#[test]
fn asof_join_holds_a_part_of_the_rows_that_wait_at_one_time() {
    let row = |epoch: i64, number: i64| asof_row_that_waits(number / 3, epoch, number);
    check_asof_join("left", 15_000, row, 2);
    // If they also have one key, they are one record, which is in memory as a whole.
    let row = |epoch: i64, number: i64| asof_row_that_waits(1, epoch, number);
    check_asof_join("left", 15_000, row, 1);
}
