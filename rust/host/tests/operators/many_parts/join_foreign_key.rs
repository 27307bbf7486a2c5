//! Both stages of the join by a foreign key, of epochs larger than their memory.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int8Array, Int64Array, RecordBatch, StringArray, new_null_array};
use arrow_schema::DataType;

use super::{ROWS, check, fixed, text};
use crate::join_foreign_key::stages::{first_stage, second_stage};

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
