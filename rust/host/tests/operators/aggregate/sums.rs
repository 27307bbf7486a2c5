//! Sums that fit their type only once all numbers are added.

use serde_json::json;

use crate::support::{Job, Row, row};

const NUMBERS: [i64; 3] = [i64::MAX, 1, -1];
const ORDERS: [[usize; 3]; 6] = [
    [0, 1, 2],
    [0, 2, 1],
    [1, 0, 2],
    [1, 2, 0],
    [2, 0, 1],
    [2, 1, 0],
];

fn rows(order: [usize; 3]) -> Vec<Row> {
    let numbers = order.into_iter().map(|n| NUMBERS[n]);
    numbers.map(|number| row(1, 0, number)).collect()
}

#[test]
fn sum_is_the_same_in_every_order_of_arrival() {
    let request = json!({
        "kind": "aggregate", "keys": ["k"], "left": ["x"], "timed": false,
        "aggregates": [{"name": "sum", "function": "sum", "column": 0}],
    });
    for order in ORDERS {
        let job = Job::new(&request, 1, 1);
        let done = job.epoch(&rows(order), false);
        assert_eq!(done.rows[0].last(), Some(&Some(i64::MAX)), "{order:?}");
    }
}

#[test]
fn sum_of_a_window_may_exceed_its_type_until_the_window_closes() {
    let request = json!({
        "kind": "aggregate", "keys": ["k"], "left": ["x"], "timed": true, "emit": "close",
        "grace": 0, "window": {"kind": "hopping", "length": 10, "slide": 10},
        "aggregates": [{"name": "sum", "function": "sum", "column": 0}],
    });
    for order in ORDERS {
        let job = Job::new(&request, 1, 1);
        // The state of each epoch is read from the store in the next one.
        for row in rows(order) {
            assert_eq!(job.epoch(&[row], true).rows, Vec::<Vec<_>>::new());
        }
        let done = job.epoch(&[row(2, 100, 7)], false);
        assert_eq!(done.rows[0].last(), Some(&Some(i64::MAX)), "{order:?}");
    }
}
