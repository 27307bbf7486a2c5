//! The as-of join of epochs larger than their memory.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};

use super::{check, fixed, text};
use crate::asof_grace;
use crate::support::schema;

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
