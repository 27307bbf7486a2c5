//! Deduplication of epochs larger than their memory.

use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch, StringArray};
use serde_json::json;

use super::{check, fixed, text};
use crate::support::schema;

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
