//! Aggregation of epochs larger than their memory.

use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch, StringArray};
use serde_json::{Value, json};

use super::{Epochs, SORTING, check, fixed, spills_of_run, text};
use crate::support::schema;

/// The request of an aggregation with these settings.
fn request(settings: &Value) -> Value {
    let mut request = json!({"kind": "aggregate", "keys": ["k"], "left": ["x"], "timed": true});
    let settings = settings.as_object().unwrap().clone();
    request.as_object_mut().unwrap().extend(settings);
    request
}

/// The rows with these numbers, by the key and the time of each number.
fn rows(numbers: &[i64], key: impl Fn(i64) -> i64, time: impl Fn(i64) -> i64) -> RecordBatch {
    let times = numbers.iter().map(|number| time(*number));
    let mut columns = fixed(&vec![true; numbers.len()], times);
    let keys = numbers.iter().map(|number| text(key(*number), 200));
    columns.push(Arc::new(StringArray::from_iter_values(keys)));
    columns.push(Arc::new(Int64Array::from(numbers.to_vec())));
    RecordBatch::try_new(schema(1), columns).unwrap()
}

/// The rows of an epoch with these numbers. `key` is the key of a row by its number.
fn batch(key: fn(i64) -> i64, epoch: i64, numbers: &[i64]) -> RecordBatch {
    // The second epoch has late rows, rows beside those of the first one, and later rows.
    rows(numbers, key, |number| number / 3 + epoch * 40_000)
}

/// Checks an aggregation with these settings. `key` is the key of a row by its number.
fn check_aggregation(settings: &Value, key: fn(i64) -> i64, part: usize) {
    let batch = |epoch: i64, numbers: &[i64]| batch(key, epoch, numbers);
    check(&request(settings), &schema(1), &batch, part);
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
fn aggregation_with_a_user_function_holds_a_part_of_the_rows_and_of_the_groups() {
    let by_key = json!({"grace": 20_000});
    check_aggregation(&user_function(&by_key), |number| number % 1_000, 2);
    check_aggregation(&user_function(&by_key), |_| 1, 2);
    // Each row has a group of its own.
    check_aggregation(&user_function(&by_key), |number| number, 3);
    for emit in ["close", "update"] {
        let tumbling = json!({"kind": "hopping", "length": 5_000, "slide": 5_000});
        let settings = json!({"grace": 20_000, "emit": emit, "window": tumbling});
        check_aggregation(&user_function(&settings), |number| number, 3);
    }
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
fn groups_that_move_to_disk_count_as_a_spill() {
    let request = request(&built_in(&["count"], &json!({})));
    let spills = |key: fn(i64) -> i64| {
        let batch = |epoch: i64, numbers: &[i64]| batch(key, epoch, numbers);
        spills_of_run(&request, &schema(1), &batch)
    };
    // The rows are of one size, so they spill equally often.
    assert_eq!(spills(|number| number), spills(|_| 1) + 1);
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
fn aggregation_of_single_values_by_window_holds_a_part_of_the_groups() {
    // Each row has a group of its own.
    let tumbling = json!({"kind": "hopping", "length": 5_000, "slide": 5_000});
    let settings = json!({"emit": "close", "window": tumbling});
    let lists = built_in(&["count_distinct", "collect_list"], &settings);
    check_aggregation(&lists, |number| number, 3);
    let hopping = json!({"kind": "hopping", "length": 10_000, "slide": 5_000});
    let settings = json!({"emit": "update", "window": hopping});
    let sets = built_in(&["collect_set", "sum"], &settings);
    check_aggregation(&sets, |number| number % 1_009, 2);
}

#[test]
fn aggregation_of_one_row_that_closes_many_windows_holds_a_part_of_them() {
    let tumbling = json!({"kind": "hopping", "length": 5_000, "slide": 5_000});
    let settings = json!({"emit": "close", "window": tumbling});
    let batch = |epoch: i64, numbers: &[i64]| match epoch {
        // Each row has a window of its own, and none closes.
        0 => rows(numbers, |number| number, |number| number / 12),
        _ => {
            let one: Vec<i64> = numbers.iter().copied().filter(|n| *n == 0).collect();
            rows(&one, |_| 0, |_| 400_000)
        }
    };
    let epochs = Epochs {
        request: &request(&built_in(&["count", "collect_list"], &settings)),
        schema: schema(1),
        batch: &batch,
    };
    epochs.check_second(3);
}

#[test]
fn windows_that_close_in_memory_use_the_memory_of_the_session() {
    const WINDOWS: i64 = 5_000;
    let tumbling = json!({"kind": "hopping", "length": 5_000, "slide": 5_000});
    let settings = json!({"emit": "close", "window": tumbling});
    let batch = |epoch: i64, numbers: &[i64]| {
        let first = if epoch == 0 { WINDOWS } else { 1 };
        let numbers = Vec::from_iter(numbers.iter().copied().filter(|number| *number < first));
        // Each row has a window of its own. The row of the second epoch closes all others.
        rows(&numbers, |number| number, |_| epoch * 400_000)
    };
    let epochs = Epochs {
        request: &request(&built_in(&["count"], &settings)),
        schema: schema(1),
        batch: &batch,
    };
    // The keys alone have 200 bytes each.
    let held = epochs.held_at_output();
    assert!(held > WINDOWS as usize * 200, "{held} bytes");
    // An epoch in parts would have reserved all of the memory.
    assert!(held < SORTING, "{held} bytes");
}

#[test]
fn aggregation_by_sliding_window_and_by_short_sessions_is_the_same_in_parts() {
    // Each time of a key is a group.
    let sliding = json!({"emit": "close", "window": {"kind": "sliding", "length": 3}});
    let sliding = built_in(&["count", "sum", "collect_list"], &sliding);
    check_aggregation(&sliding, |number| number / 30 % 100, 1);
    let sessions = json!({"emit": "close", "window": {"kind": "session", "gap": 2}});
    let sessions = built_in(&["count", "sum", "last"], &sessions);
    check_aggregation(&sessions, |number| number / 30 % 1_009, 1);
}
