//! The input rows of an epoch, drawn from one number, and the output that the query must have.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};

use crate::far_future;

/// Partitions of the operator.
pub const PARTITIONS: usize = 2;
const KEYS: usize = 4;

/// The output of an epoch: the rate of each order, by the order's id.
pub type Output = BTreeMap<i64, Option<i64>>;

/// Whether the query calls no operator in an epoch: its `foreachBatch` function returns early.
pub fn is_skipped(rows: u64) -> bool {
    rows.is_multiple_of(4)
}

/// The rates of an epoch; each key has an order, too.
fn rates(rows: u64) -> [Option<i64>; KEYS] {
    let mut rng = fastrand::Rng::with_seed(rows);
    std::array::from_fn(|_| rng.bool().then(|| rng.i64(0..1_000_000)))
}

/// The output of the last of these epochs.
pub fn expected(epochs: impl Iterator<Item = u64>) -> Output {
    let (mut latest, mut count) = ([None; KEYS], 0);
    let mut is_last_skipped = false;
    for rows in epochs {
        count += 1;
        is_last_skipped = is_skipped(rows);
        if is_last_skipped {
            continue;
        }
        for (latest, rate) in latest.iter_mut().zip(rates(rows)) {
            *latest = rate.or(*latest);
        }
    }
    let keys = if is_last_skipped { 0 } else { KEYS };
    latest
        .into_iter()
        .take(keys)
        .enumerate()
        .map(|(key, rate)| (id(count - 1, key), rate))
        .collect()
}

fn id(epoch: usize, key: usize) -> i64 {
    (epoch * KEYS + key) as i64
}

/// The rows of a partition: for each key its rate, if it has one, and an order. Then the far-future
/// order, if the partition has one.
pub fn batch(epoch: usize, partition: usize, rows: u64) -> RecordBatch {
    let mut found: Vec<(String, i64, Option<i64>, Option<f64>)> = Vec::new();
    let time = epoch as i64 * 10;
    for (key, rate) in rates(rows).into_iter().enumerate() {
        if key % PARTITIONS == partition {
            let name = format!("key {key}");
            if let Some(rate) = rate {
                found.push((name.clone(), time, None, Some(rate as f64)));
            }
            found.push((name, time + 5, Some(id(epoch, key)), None));
        }
    }
    if let Some(order) = far_future::order(rows, partition) {
        found.push((
            format!("key {partition}"),
            far_future::TIME,
            Some(order),
            None,
        ));
    }
    let count = found.len();
    let times = found.iter().map(|row| row.1).collect::<Vec<_>>();
    let columns: [(&str, ArrayRef); 7] = [
        (
            "pid",
            Arc::new(Int32Array::from(vec![partition as i32; count])),
        ),
        (
            "side",
            Arc::new(
                found
                    .iter()
                    .map(|row| Some(row.2.is_some()))
                    .collect::<BooleanArray>(),
            ),
        ),
        ("deleted", Arc::new(BooleanArray::from(vec![false; count]))),
        (
            "t",
            Arc::new(TimestampMicrosecondArray::from(times).with_timezone("UTC")),
        ),
        (
            "k0",
            Arc::new(
                found
                    .iter()
                    .map(|row| Some(row.0.as_str()))
                    .collect::<StringArray>(),
            ),
        ),
        (
            "l0",
            Arc::new(found.iter().map(|row| row.2).collect::<Int64Array>()),
        ),
        (
            "r0",
            Arc::new(found.iter().map(|row| row.3).collect::<Float64Array>()),
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
        .expect("columns of one length")
}
