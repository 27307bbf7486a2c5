//! Rows, and strategies that draw them.

use proptest::prelude::*;

/// A row of either side: a key, a time, a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row {
    pub time: Option<i64>,
    /// The right side's rows come first at equal times.
    pub left: bool,
    pub key: Option<u8>,
    pub number: Option<i64>,
}

pub fn right(key: u8, time: i64, number: i64) -> Row {
    Row {
        left: false,
        ..row(key, time, number)
    }
}

/// A left row.
pub fn row(key: u8, time: i64, number: i64) -> Row {
    Row {
        left: true,
        key: Some(key),
        time: Some(time),
        number: Some(number),
    }
}

/// Fewer than `count` rows, of the sides that `left` draws, some with nulls.
pub fn rows(
    left: impl Strategy<Value = bool> + Clone,
    nulls: u32,
    count: usize,
) -> impl Strategy<Value = Vec<Row>> {
    let key = prop_oneof![nulls => Just(None), 30 => (0..3_u8).prop_map(Some)];
    let time = prop_oneof![nulls => Just(None), 30 => (0..60_i64).prop_map(Some)];
    let number = prop_oneof![1 => Just(None), 5 => (0..100_i64).prop_map(Some)];
    let row = (key, time, left, number).prop_map(|(key, time, left, number)| Row {
        time,
        left,
        key,
        number,
    });
    prop::collection::vec(row, 0..count)
}

/// The rows in the order in which they arrive, each up to `delay` after its time, cut into epochs.
/// The flag of an epoch says whether it is replayed.
pub fn cut(rows: Vec<Row>, delay: i64) -> impl Strategy<Value = Vec<(Vec<Row>, bool)>> {
    let count = rows.len();
    let delays = prop::collection::vec(0..=delay, count);
    let cuts = prop::collection::vec(prop::bool::weighted(0.2), count);
    (
        Just(rows),
        delays,
        cuts,
        prop::collection::vec(any::<bool>(), count + 1),
    )
        .prop_map(|(rows, delays, cuts, replays)| {
            let mut arriving: Vec<(Option<i64>, Row)> = rows
                .into_iter()
                .zip(delays)
                .map(|(row, delay)| (row.time.map(|time| time + delay), row))
                .collect();
            arriving.sort_by_key(|(at, row)| (*at, *row));
            let mut epochs = vec![Vec::new()];
            for ((_, row), cut) in arriving.into_iter().zip(cuts) {
                epochs.last_mut().unwrap().push(row);
                if cut {
                    epochs.push(Vec::new());
                }
            }
            epochs.into_iter().zip(replays).collect()
        })
}

/// Rows in one order, for comparisons.
pub fn sorted<T: Ord>(rows: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut rows: Vec<T> = rows.into_iter().collect();
    rows.sort();
    rows
}
