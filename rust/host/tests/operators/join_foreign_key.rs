//! The join by a foreign key against the tables' join, through both of its stages.
//!
//! A left row's number says its foreign key, too: the remainder of 4, of which 3 is none.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int64Type};
use arrow_array::{
    ArrayRef, BooleanArray, Int8Array, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray, new_null_array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use proptest::prelude::*;
use serde_json::json;

use crate::support::{Job, Out, Row, cut, numbers, right, row, rows, sorted};

fn foreign(number: Option<i64>) -> Option<i64> {
    number
        .map(|number| number % 4)
        .filter(|foreign| *foreign < 3)
}

fn columns(fields: &[(&str, DataType)]) -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let fixed = [
        ("pid", DataType::Int32),
        ("side", DataType::Boolean),
        ("deleted", DataType::Boolean),
        ("t", time),
    ];
    let all = fixed.into_iter().chain(fields.iter().cloned());
    Arc::new(Schema::new(
        all.map(|(name, data_type)| Field::new(name, data_type, true))
            .collect::<Vec<Field>>(),
    ))
}

/// Both stages.
struct Both {
    first: Job,
    second: Job,
    epochs: u64,
}

impl Both {
    fn new(how: &str, retention: i64, partitions: usize) -> Self {
        let first = json!({
            "kind": "foreign_left", "keys": ["k"], "left": ["f", "x"],
            "right": ["action", "number"], "how": how,
            "history_retention": retention, "values": [0, 1], "foreign": [0],
            "output": [
                {"name": "k", "from": "key", "index": 0}, {"name": "t", "from": "time"},
                {"name": "f", "from": "left", "index": 0},
                {"name": "x", "from": "left", "index": 1},
                {"name": "action", "from": "right", "index": 0},
                {"name": "number", "from": "right", "index": 1},
            ],
        });
        let second = json!({
            "kind": "foreign_join", "keys": ["f", "k"], "left": ["f", "x", "action", "number"],
            "right": ["v"], "order_left": [3],
            "how": how, "foreign": 1, "history_retention": retention, "action": 2,
            "right_values": [0],
            "output": [
                {"name": "k", "from": "key", "index": 1}, {"name": "t", "from": "time"},
                {"name": "x", "from": "left", "index": 1},
                {"name": "since", "from": "right_time"}, {"name": "v", "from": "right", "index": 0},
            ],
        });
        let (text, long, tiny) = (DataType::Utf8, DataType::Int64, DataType::Int8);
        let left = [
            ("k0", text.clone()),
            ("l0", long.clone()),
            ("l1", long.clone()),
            ("r0", tiny.clone()),
            ("r1", long.clone()),
        ];
        let both = [
            ("k0", long.clone()),
            ("k1", text),
            ("l0", long.clone()),
            ("l1", long.clone()),
            ("l2", tiny),
            ("l3", long.clone()),
            ("r0", long),
        ];
        Self {
            first: Job::over(&first, columns(&left), partitions),
            second: Job::over(&second, columns(&both), partitions),
            epochs: 0,
        }
    }

    /// Rows of the result: left key, left time, its number, right time, right number.
    fn epoch(&mut self, rows: &[Row], replay: bool) -> Vec<Out> {
        let partitions = self.first.databases.len();
        let mut parts: Vec<Vec<RecordBatch>> = vec![Vec::new(); partitions];
        let mut scatter = |batch: RecordBatch| {
            let keys = batch.column(4).as_primitive::<Int64Type>().clone();
            for (partition, part) in parts.iter_mut().enumerate() {
                let of = |row: usize| {
                    if keys.is_null(row) {
                        0
                    } else {
                        keys.value(row) as usize % partitions
                    }
                };
                let ours: BooleanArray = (0..batch.num_rows())
                    .map(|row| Some(of(row) == partition))
                    .collect();
                part.push(filter_record_batch(&batch, &ours).unwrap());
            }
        };
        for partition in 0..partitions {
            let lefts: Vec<Row> = rows
                .iter()
                .filter(|row| row.left && self.first.partition(row.key) == partition)
                .copied()
                .collect();
            for told in self
                .first
                .partition_epoch(partition, &left_rows(&lefts), None, replay)
                .0
            {
                scatter(second_rows(&told));
            }
        }
        let rights: Vec<Row> = rows.iter().filter(|row| !row.left).copied().collect();
        scatter(right_rows(&rights));
        let mut out = Vec::new();
        // Nothing may depend on which partition of the second stage comes first.
        let order: Vec<usize> = if self.epochs.is_multiple_of(2) {
            (0..partitions).collect()
        } else {
            (0..partitions).rev().collect()
        };
        self.epochs += 1;
        for partition in order {
            let schema = parts[partition][0].schema();
            let input = concat_batches(&schema, &parts[partition]).unwrap();
            let (given, _) = self.second.partition_epoch(partition, &input, None, replay);
            out.extend(given.iter().flat_map(numbers));
        }
        out
    }
}

fn fixed(count: usize, left: bool, times: impl Iterator<Item = Option<i64>>) -> Vec<ArrayRef> {
    vec![
        Arc::new(Int32Array::from(vec![0; count])),
        Arc::new(BooleanArray::from(vec![left; count])),
        Arc::new(BooleanArray::from(vec![None; count])),
        Arc::new(
            times
                .collect::<TimestampMicrosecondArray>()
                .with_timezone("UTC"),
        ),
    ]
}

fn left_rows(rows: &[Row]) -> RecordBatch {
    let (text, long, tiny) = (DataType::Utf8, DataType::Int64, DataType::Int8);
    let mut all = fixed(rows.len(), true, rows.iter().map(|row| row.time));
    all.push(Arc::new(
        rows.iter()
            .map(|row| row.key.map(|key| key.to_string()))
            .collect::<StringArray>(),
    ));
    all.push(Arc::new(
        rows.iter()
            .map(|row| foreign(row.number))
            .collect::<Int64Array>(),
    ));
    all.push(Arc::new(
        rows.iter().map(|row| row.number).collect::<Int64Array>(),
    ));
    all.extend([
        new_null_array(&tiny, rows.len()),
        new_null_array(&long, rows.len()),
    ]);
    RecordBatch::try_new(
        columns(&[
            ("k0", text),
            ("l0", long.clone()),
            ("l1", long.clone()),
            ("r0", tiny),
            ("r1", long),
        ]),
        all,
    )
    .unwrap()
}

fn second(all: Vec<ArrayRef>) -> RecordBatch {
    let (text, long, tiny) = (DataType::Utf8, DataType::Int64, DataType::Int8);
    let fields = [
        ("k0", long.clone()),
        ("k1", text),
        ("l0", long.clone()),
        ("l1", long.clone()),
        ("l2", tiny),
        ("l3", long.clone()),
        ("r0", long),
    ];
    RecordBatch::try_new(columns(&fields), all).unwrap()
}

/// What the first stage tells, as the second takes it.
fn second_rows(told: &RecordBatch) -> RecordBatch {
    let count = told.num_rows();
    let mut all = fixed(count, true, std::iter::repeat_n(None, count));
    let column = |index: usize| Arc::clone(told.column(index));
    all[3] = column(1);
    all.extend([
        column(2),
        column(0),
        column(2),
        column(3),
        column(4),
        column(5),
        new_null_array(&DataType::Int64, count),
    ]);
    assert!(
        told.column(4)
            .as_primitive::<Int8Type>()
            .iter()
            .all(|action| action.is_some())
    );
    second(all)
}

fn right_rows(rows: &[Row]) -> RecordBatch {
    let (nulls, texts) = (
        new_null_array(&DataType::Int64, rows.len()),
        new_null_array(&DataType::Utf8, rows.len()),
    );
    let mut all = fixed(rows.len(), false, rows.iter().map(|row| row.time));
    all.push(Arc::new(
        rows.iter()
            .map(|row| row.key.map(i64::from))
            .collect::<Int64Array>(),
    ));
    all.extend([
        texts,
        Arc::clone(&nulls),
        Arc::clone(&nulls),
        Arc::new(Int8Array::from(vec![None; rows.len()])),
        nulls,
    ]);
    all.push(Arc::new(
        rows.iter().map(|row| row.number).collect::<Int64Array>(),
    ));
    second(all)
}

/// A row of the result of left key 1.
fn out(left: (i64, Option<i64>), right: Option<(i64, Option<i64>)>) -> Out {
    vec![
        Some(1),
        Some(left.0),
        left.1,
        right.map(|right| right.0),
        right.and_then(|right| right.1),
    ]
}

fn gone(row: Row) -> Row {
    Row {
        number: None,
        ..row
    }
}

#[test]
fn changes_of_either_side_go_out_again() {
    let mut both = Both::new("inner", 1_000, 2);
    // 5 names the right key 1.
    assert_eq!(both.epoch(&[row(1, 2, 5)], true), Vec::<Out>::new());
    assert_eq!(
        both.epoch(&[right(1, 1, 10)], true),
        [out((2, Some(5)), Some((1, Some(10))))]
    );
    assert_eq!(
        both.epoch(&[right(1, 3, 30)], true),
        [out((2, Some(5)), Some((3, Some(30))))]
    );
    assert_eq!(
        both.epoch(&[row(1, 4, 9)], true),
        [out((4, Some(9)), Some((3, Some(30))))]
    );
    assert_eq!(
        both.epoch(&[gone(right(1, 5, 0))], true),
        [out((4, None), Some((5, None)))]
    );
    assert_eq!(
        both.epoch(&[right(1, 6, 60)], true),
        [out((4, Some(9)), Some((6, Some(60))))]
    );
    assert_eq!(
        both.epoch(&[gone(row(1, 7, 0))], true),
        [out((7, None), None)]
    );
    assert_eq!(both.epoch(&[right(1, 8, 80)], true), Vec::<Out>::new());
}

#[test]
fn a_row_that_changes_its_foreign_key_leaves_the_old_one() {
    let mut both = Both::new("inner", 1_000, 2);
    both.epoch(&[row(1, 2, 5), right(1, 1, 10), right(2, 1, 20)], true);
    assert_eq!(
        both.epoch(&[row(1, 3, 6)], true),
        [out((3, Some(6)), Some((1, Some(20))))]
    );
    // The old right row says nothing more, the new one does; a right key without a row, and none,
    // take the result back.
    assert_eq!(
        both.epoch(&[right(1, 4, 40), right(2, 5, 50)], true),
        [out((3, Some(6)), Some((5, Some(50))))]
    );
    assert_eq!(both.epoch(&[row(1, 6, 4)], true), [out((6, None), None)]);
    assert_eq!(
        both.epoch(&[row(1, 7, 5)], true),
        [out((7, Some(5)), Some((4, Some(40))))]
    );
    assert_eq!(both.epoch(&[row(1, 8, 3)], true), [out((8, None), None)]);
}

#[test]
fn left_rows_without_a_right_row_or_a_foreign_key_go_out_with_left() {
    let mut both = Both::new("left", 1_000, 2);
    assert_eq!(both.epoch(&[row(1, 2, 5)], true), [out((2, Some(5)), None)]);
    assert_eq!(both.epoch(&[row(1, 3, 3)], true), [out((3, Some(3)), None)]);
    assert_eq!(
        both.epoch(&[gone(row(1, 4, 0))], true),
        [out((4, None), None)]
    );
}

#[test]
fn a_late_left_row_gives_nothing_now_and_later() {
    let mut both = Both::new("inner", 1_000, 2);
    both.epoch(&[row(1, 1, 5), row(1, 9, 5), right(1, 1, 10)], true);
    assert_eq!(both.epoch(&[row(1, 5, 6)], true), Vec::<Out>::new());
    assert_eq!(both.epoch(&[right(2, 6, 60)], true), Vec::<Out>::new());
    assert_eq!(
        both.epoch(&[right(1, 10, 70)], true),
        [out((9, Some(5)), Some((10, Some(70))))]
    );
}

#[test]
fn a_row_is_kept_however_far_its_foreign_keys_partition_is_ahead() {
    let mut both = Both::new("inner", 10, 3);
    // Left keys 0 and 1 are of two partitions of the first stage, their foreign key of one of the
    // second.
    both.epoch(&[row(0, 100, 1), right(1, 1, 9), right(1, 100, 10)], true);
    let rows = [
        out((50, Some(1)), Some((1, Some(9)))),
        out((50, Some(1)), Some((100, Some(10)))),
    ];
    assert_eq!(both.epoch(&[row(1, 50, 1)], true), rows);
    let rows = both.epoch(&[right(1, 101, 11)], true);
    assert_eq!(sorted(rows.iter().map(|row| row[0])), [Some(0), Some(1)]);
}

/// Left and right number of a row of the result.
type Numbers = (i64, Option<i64>);

/// Each side's values by key and time.
#[derive(Default)]
struct Tables {
    left: BTreeMap<u8, BTreeMap<i64, Option<i64>>>,
    right: BTreeMap<u8, BTreeMap<i64, Option<i64>>>,
}

impl Tables {
    fn put(&mut self, row: &Row) {
        if let (Some(key), Some(time)) = (row.key, row.time) {
            let side = if row.left {
                &mut self.left
            } else {
                &mut self.right
            };
            side.entry(key).or_default().insert(time, row.number);
        }
    }

    /// Left and right number of a key's row of the result at a time.
    fn joined(&self, how: &str, key: u8, time: i64) -> Option<Numbers> {
        let at = |side: &BTreeMap<u8, BTreeMap<i64, Option<i64>>>, key: u8| {
            *side.get(&key)?.range(..=time).next_back()?.1
        };
        let number = at(&self.left, key)?;
        let right = foreign(Some(number)).and_then(|foreign| at(&self.right, foreign as u8));
        (right.is_some() || how == "left").then_some((number, right))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None,
        ..ProptestConfig::default() })]

    /// Each key's rows of each side in the order of time, but the sides, and keys, against each
    /// other in any.
    #[test]
    fn the_result_is_the_join_of_the_tables_at_any_time(
        (lefts, rights) in (rows(Just(true), 0, 40), rows(Just(false), 0, 40)),
        takes in prop::collection::vec(any::<bool>(), 80),
        retention in prop_oneof![0..20_i64, Just(1_000)], is_right_delayed in any::<bool>(),
        chunk in 1..12_usize, how in prop::sample::select(vec!["inner", "left"]),
        partitions in 1..4_usize, replay in any::<bool>(),
    ) {
        // With a short history one side comes wholly after the other, and the result is the join
        // wherever the history reaches.
        let takes = if retention < 20 { vec![is_right_delayed; 40] } else { takes };
        let mut seen = std::collections::HashSet::new();
        let lefts: Vec<Row> = lefts.into_iter().filter(|row| seen.insert((row.key, row.time)))
            .collect();
        let (mut lefts, mut rights) = (sorted(lefts).into_iter(), sorted(rights).into_iter());
        let mut arriving: Vec<Row> = takes.into_iter()
            .filter_map(|left| if left { lefts.next() } else { rights.next() }).collect();
        arriving.extend(lefts.chain(rights));
        let newest = arriving.iter().filter_map(|row| row.time).max().unwrap_or(0);
        let (mut both, mut tables, mut result) =
            (Both::new(how, retention, partitions), Tables::default(), BTreeMap::new());
        for rows in arriving.chunks(chunk) {
            for out in both.epoch(rows, replay) {
                result.insert((out[0].unwrap() as u8, out[1].unwrap(), out[3]), (out[2], out[4]));
            }
            rows.iter().for_each(|row| tables.put(row));
        }
        for key in 0..3 {
            for time in (newest - retention).max(-1)..62 {
                // The greatest left time up to it, then the greatest right one.
                let mut found = result.iter()
                    .filter(|((of, at, since), _)| *of == key && *at <= time
                        && since.is_none_or(|since| since <= time));
                let read = found.next_back()
                    .and_then(|(_, (left, right))| Some(((*left)?, *right)));
                prop_assert_eq!(read, tables.joined(how, key, time), "key {} at {}", key, time);
            }
        }
    }

    /// Rows however late: the rows with the greatest left time, the last to come, are the join of
    /// what is newest.
    #[test]
    fn the_newest_of_the_result_is_the_join_of_what_is_newest(
        epochs in rows(any::<bool>(), 1, 60).prop_flat_map(|rows| cut(rows, 30)),
        how in prop::sample::select(vec!["inner", "left"]),
        partitions in 1..4_usize,
    ) {
        let (mut both, mut tables) = (Both::new(how, 1_000, partitions), Tables::default());
        let mut result: BTreeMap<i64, (i64, Option<Numbers>)> = BTreeMap::new();
        for (rows, replay) in &epochs {
            for out in both.epoch(rows, *replay) {
                let (key, time) = (out[0].unwrap(), out[1].unwrap());
                if result.get(&key).is_none_or(|(newest, _)| *newest <= time) {
                    result.insert(key, (time, out[2].map(|number| (number, out[4]))));
                }
            }
            // Of rows with one key and time the last in the order of their columns holds.
            let mut rows = rows.clone();
            rows.sort_by_key(|row| (foreign(row.number).filter(|_| row.left), row.number));
            rows.iter().for_each(|row| tables.put(row));
            for key in 0..3_u8 {
                let read = result.get(&i64::from(key)).and_then(|(_, row)| *row);
                prop_assert_eq!(read, tables.joined(how, key, 1_000), "key {}", key);
            }
        }
    }
}
