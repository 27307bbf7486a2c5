//! The join of two streams within a window, of epochs larger than their memory.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use serde_json::{Value, json};

use super::{check, fixed, spills_of_run, text};
use crate::support::schema;

/// The request of a join of two streams.
fn request(how: &str, [before, after]: [i64; 2]) -> Value {
    json!({
        "kind": "join_window", "keys": ["k"], "left": ["x"], "right": ["v"], "how": how,
        "before": before, "after": after, "grace": 20_000,
        "output": [
            {"name": "k", "from": "key", "index": 0}, {"name": "t", "from": "time"},
            {"name": "x", "from": "left", "index": 0},
            {"name": "since", "from": "right_time"}, {"name": "v", "from": "right", "index": 0},
        ],
    })
}

/// The keys and the sides of rows, by number.
#[derive(Clone, Copy)]
struct KeysAndSides {
    key: fn(i64) -> Option<i64>,
    is_left: fn(i64) -> bool,
}

impl KeysAndSides {
    /// The rows of an epoch with these numbers.
    fn batch(self, epoch: i64, numbers: &[i64]) -> RecordBatch {
        // The second epoch has late rows, and rows that match those of the first one.
        let sides: Vec<bool> = numbers
            .iter()
            .map(|number| (self.is_left)(*number))
            .collect();
        let times = numbers.iter().map(|number| number / 3 + epoch * 40_000);
        let values = |left: bool| -> ArrayRef {
            let rows = numbers.iter().zip(&sides);
            let values = rows.map(|(number, is_left)| Some(*number).filter(|_| *is_left == left));
            Arc::new(values.collect::<Int64Array>())
        };
        let keys = numbers.iter().map(|number| (self.key)(*number));
        let keys = keys.map(|key| key.map(|key| text(key, 100)));
        let mut columns = fixed(&sides, times);
        columns.push(Arc::new(keys.collect::<StringArray>()));
        columns.extend([values(true), values(false)]);
        RecordBatch::try_new(schema(2), columns).unwrap()
    }
}

/// Checks a join of two streams. `key` is the key of a row by its number, and `is_left` its side.
fn check_join_window(
    how: &str,
    window: [i64; 2],
    key: fn(i64) -> Option<i64>,
    is_left: fn(i64) -> bool,
) {
    let rows = KeysAndSides { key, is_left };
    let batch = |epoch: i64, numbers: &[i64]| rows.batch(epoch, numbers);
    check(&request(how, window), &schema(2), &batch, 2);
}

#[test]
fn changed_records_that_move_to_disk_count_as_spills() {
    let rows = KeysAndSides {
        key: Some,
        is_left: |number| number % 2 == 0,
    };
    let batch = |epoch: i64, numbers: &[i64]| rows.batch(epoch, numbers);
    let spills = |is_last: bool| {
        let mut request = request("inner", [7_000, 15_000]);
        request["last"] = json!(is_last);
        spills_of_run(&request, &schema(2), &batch)
    };
    // No row waits after the last epoch, so no record changes.
    let (waiting, none) = (spills(false), spills(true));
    assert!(waiting >= none + 2, "each side spills: {waiting}, {none}");
}

#[test]
fn join_of_streams_holds_a_part_of_the_rows() {
    // Ten rows of most keys, on both sides in turn, which match the row before and the row after.
    // Some keys have one row. Most rows are closed in their own epoch, others wait for the second.
    let key = |number: i64| match number % 100 {
        0 => None,
        1..10 => Some(number),
        _ => Some(number % 20_011),
    };
    for how in ["outer", "inner"] {
        check_join_window(how, [7_000, 15_000], key, |number| number % 2 == 0);
    }
}

#[test]
fn join_of_streams_holds_a_part_of_the_rows_of_one_key() {
    // Most rows are of one side, and each row of the other side matches thousands of them.
    let is_rare = |number: i64| number % 40_000 == 7;
    check_join_window("outer", [3_000, 2_000], |_| Some(1), is_rare);
    check_join_window(
        "left",
        [3_000, 2_000],
        |_| Some(1),
        |number| number % 40_000 != 7,
    );
    // Each row matches a few rows of the other side.
    check_join_window("outer", [2, 3], |_| Some(1), |number| number % 2 == 0);
}
