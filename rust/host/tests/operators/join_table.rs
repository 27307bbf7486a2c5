//! Compares the result of `join_table` with the join of both tables as of each time.

use std::collections::BTreeMap;

use holdfast_core::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{Done, Job, Out, Row, cut, right, row, rows, sorted};

fn request(how: &str, retention: i64) -> Value {
    json!({
        "kind": "join_table", "keys": ["k"], "left": ["x"], "right": ["v"], "how": how,
        "history_retention": retention,
        "left_values": [0], "right_values": [0],
        "output": [
            {"name": "k", "from": "key", "index": 0}, {"name": "t", "from": "time"},
            {"name": "x", "from": "left", "index": 0},
            {"name": "since", "from": "right_time"}, {"name": "v", "from": "right", "index": 0},
        ],
    })
}

fn job(how: &str) -> Job {
    Job::new(&request(how, 1_000), 2, 1)
}

fn deleted(mut row: Row) -> Row {
    row.number = None;
    row
}

/// A row of the result of key 1: left time and number, right time and number.
fn out(left: (i64, i64), right: (i64, i64)) -> Out {
    vec![
        Some(1),
        Some(left.0),
        Some(left.1),
        Some(right.0),
        Some(right.1),
    ]
}

fn value_at(job: &Job, store: &str, time: i64) -> Option<Vec<u8>> {
    let mut tx = job.databases[0].begin().unwrap();
    // The key's bytes in the format of arrow-row.
    let key = [2, b'1', 0, 0, 0, 0, 0, 0, 0, 1];
    job.databases[0]
        .versioned(store)
        .unwrap()
        .get_as_of(&mut tx, &key, Timestamp(time), |version| {
            version.map(|version| version.value.to_vec())
        })
        .unwrap()
}

#[test]
fn a_row_that_is_not_the_newest_of_its_key_is_stored_and_gives_nothing() {
    let job = job("inner");
    assert_eq!(job.epoch(&[row(1, 5, 50)], true).rows, Vec::<Out>::new());
    assert_eq!(
        job.epoch(&[right(1, 1, 10)], true).rows,
        [out((5, 50), (1, 10))]
    );
    assert_eq!(value_at(&job, "left", 4), None);
    let Done { rows, counts } = job.epoch(&[row(1, 3, 30)], true);
    assert_eq!((rows, counts.late), (Vec::<Out>::new(), 1));
    let alone = self::job("inner");
    alone.epoch(&[row(1, 3, 30)], true);
    assert_eq!(value_at(&job, "left", 4), value_at(&alone, "left", 4));
    assert!(
        value_at(&job, "left", 4).is_some()
            && value_at(&job, "left", 4) != value_at(&job, "left", 5)
    );
}

#[test]
fn a_late_tombstone_gives_nothing() {
    let job = job("left");
    job.epoch(&[row(1, 5, 50), right(1, 4, 10)], true);
    let Done { rows, counts } = job.epoch(&[deleted(row(1, 3, 0)), deleted(right(1, 2, 0))], true);
    assert_eq!((rows, counts.late), (Vec::<Out>::new(), 2));
}

#[test]
fn a_row_older_than_the_history_is_not_stored() {
    let job = Job::new(&request("outer", 10), 2, 1);
    job.epoch(&[row(2, 100, 1)], true);
    let Done { rows, counts } = job.epoch(&[row(1, 89, 2)], true);
    assert_eq!((rows, counts.late), (Vec::<Out>::new(), 1));
    assert_eq!(value_at(&job, "left", 1_000), None);
}

#[test]
fn a_row_of_an_equal_time_is_the_newest() {
    let job = job("inner");
    job.epoch(&[row(1, 5, 50), right(1, 1, 10)], true);
    assert_eq!(
        job.epoch(&[row(1, 5, 51)], true).rows,
        [out((5, 51), (1, 10))]
    );
    assert_eq!(
        job.epoch(&[right(1, 1, 11)], true).rows,
        [out((5, 51), (1, 11))].map(|mut row| {
            row[1] = Some(5);
            row
        })
    );
}

#[test]
fn a_row_is_joined_as_of_its_own_time_and_again_at_each_later_change() {
    let job = job("inner");
    job.epoch(
        &[
            right(1, 1, 10),
            right(1, 9, 90),
            deleted(right(1, 12, 0)),
            right(1, 15, 15),
        ],
        true,
    );
    let rows = job.epoch(&[row(1, 5, 50)], true).rows;
    let delete = vec![Some(1), Some(5), None, Some(12), None];
    assert_eq!(
        rows,
        [
            out((5, 50), (1, 10)),
            out((5, 50), (9, 90)),
            delete,
            out((5, 50), (15, 15))
        ]
    );
}

#[test]
fn a_row_older_than_the_other_sides_history_is_joined_with_the_known_part() {
    let job = Job::new(&request("inner", 10), 2, 1);
    job.epoch(&[right(1, 1, 10), right(1, 100, 11)], true);
    // The first right row is current until 100, and is stored.
    assert_eq!(
        job.epoch(&[row(1, 5, 50)], true).rows,
        [out((5, 50), (1, 10)), out((5, 50), (100, 11))]
    );
    // A version that began after the left row is joined from its begin on. A delete after the left
    // row gives one more row, without a right value.
    let job = Job::new(&request("left", 10), 2, 1);
    job.epoch(
        &[
            right(1, 20, 20),
            right(1, 100, 11),
            right(2, 1, 1),
            deleted(right(2, 20, 0)),
        ],
        true,
    );
    let (alone, since) = (
        vec![Some(1), Some(5), Some(50), None, None],
        vec![Some(2), Some(5), Some(50), Some(20), None],
    );
    assert_eq!(
        job.epoch(&[row(1, 5, 50)], true).rows,
        [
            alone.clone(),
            out((5, 50), (20, 20)),
            out((5, 50), (100, 11))
        ]
    );
    assert_eq!(
        job.epoch(&[row(2, 5, 50)], true).rows,
        [[&[Some(2)], &alone[1..]].concat(), since]
    );
}

#[test]
fn rows_behind_the_history_give_nothing_even_if_not_yet_dropped() {
    let job = Job::new(&request("outer", 900), 2, 1);
    // The row of the other key moves the first row behind the history, but no compaction has
    // dropped it yet.
    job.epoch(
        &[
            right(1, 50, 1),
            right(1, 80, 2),
            right(1, 105, 3),
            right(2, 1_000, 4),
        ],
        true,
    );
    let alone = vec![Some(1), Some(5), Some(50), None, None];
    assert_eq!(
        job.epoch(&[row(1, 5, 50)], true).rows,
        [alone, out((5, 50), (80, 2)), out((5, 50), (105, 3))]
    );
}

#[test]
fn a_delete_goes_out_only_where_there_was_a_row() {
    let job = job("inner");
    assert_eq!(
        job.epoch(
            &[deleted(row(1, 1, 0)), row(1, 2, 2), deleted(row(1, 3, 0))],
            true
        )
        .rows,
        Vec::<Out>::new()
    );
    job.epoch(&[row(1, 4, 4), right(1, 5, 5)], true);
    assert_eq!(
        job.epoch(&[deleted(right(1, 6, 0))], true).rows,
        [vec![Some(1), Some(4), None, Some(6), None]]
    );
    assert_eq!(
        job.epoch(&[deleted(row(1, 7, 0))], true).rows,
        Vec::<Out>::new()
    );
}

#[test]
fn rows_without_a_key_or_a_time_are_dropped() {
    let rows = [
        Row {
            key: None,
            ..row(0, 1, 1)
        },
        Row {
            time: None,
            ..right(1, 0, 1)
        },
    ];
    let done = job("outer").epoch(&rows, true);
    assert_eq!((done.rows, done.counts.dropped), (Vec::<Out>::new(), 2));
}

/// Left and right number of a row of the result.
type Pair = (Option<i64>, Option<i64>);

/// The values of both tables, by key and time.
#[derive(Default)]
struct Tables {
    sides: [BTreeMap<u8, BTreeMap<i64, Option<i64>>>; 2],
}

impl Tables {
    fn put(&mut self, row: &Row) {
        self.sides[usize::from(row.left)]
            .entry(row.key.unwrap())
            .or_default()
            .insert(row.time.unwrap(), row.number);
    }

    fn at(&self, left: bool, key: u8, time: i64) -> Option<i64> {
        self.sides[usize::from(left)]
            .get(&key)?
            .range(..=time)
            .next_back()?
            .1
            .to_owned()
    }

    /// The result of a key at a time.
    fn joined(&self, how: &str, key: u8, time: i64) -> Option<Pair> {
        let (left, right) = (self.at(true, key, time), self.at(false, key, time));
        let is_there = match how {
            "inner" => left.is_some() && right.is_some(),
            "left" => left.is_some(),
            _ => left.is_some() || right.is_some(),
        };
        is_there.then_some((left, right))
    }
}

/// The result that a reader finds at a time: the last row for the greatest time up to it.
fn read(result: &BTreeMap<(u8, i64), Pair>, key: u8, time: i64) -> Option<Pair> {
    let found = result
        .range((key, i64::MIN)..=(key, time))
        .next_back()
        .map(|(_, row)| *row);
    found.filter(|(left, right)| left.is_some() || right.is_some())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Each side arrives in the order of time, both sides mixed in any order: the result is the
    /// join of the tables at all times.
    #[test]
    fn the_result_is_the_join_of_the_tables_at_any_time(
        (lefts, rights) in (rows(Just(true), 0, 40), rows(Just(false), 0, 40)),
        takes in prop::collection::vec(any::<bool>(), 80),
        chunk in 1..12_usize, how in prop::sample::select(vec!["inner", "left", "outer"]),
        partitions in 1..4_usize, replay in any::<bool>(),
    ) {
        let keyed = |rows: Vec<Row>| sorted(rows.into_iter()
            .filter(|row| row.key.is_some() && row.time.is_some()));
        let (mut lefts, mut rights) = (keyed(lefts).into_iter(), keyed(rights).into_iter());
        let mut arriving: Vec<Row> = takes.into_iter()
            .filter_map(|left| if left { lefts.next() } else { rights.next() }).collect();
        arriving.extend(lefts.chain(rights));
        let (job, mut tables, mut result) =
            (Job::new(&request(how, 1_000), 2, partitions), Tables::default(), BTreeMap::new());
        for rows in arriving.chunks(chunk) {
            for out in job.epoch(rows, replay).rows {
                let time = out[1].max(out[3]).unwrap();
                result.insert((out[0].unwrap() as u8, time), (out[2], out[4]));
            }
            rows.iter().for_each(|row| tables.put(row));
        }
        // If several rows have one key, side and time, the last to arrive wins; within an epoch,
        // the greatest.
        for key in 0..3 {
            for time in -1..62 {
                prop_assert_eq!(read(&result, key, time), tables.joined(how, key, time),
                    "key {} at {}", key, time);
            }
        }
    }

    /// One side arrives wholly after the other: the result is the join of the tables within the
    /// history.
    #[test]
    fn the_result_is_the_join_of_the_tables_within_the_history(
        (first, second) in (rows(Just(true), 0, 40), rows(Just(true), 0, 40)),
        is_left_first in any::<bool>(), retention in 0..20_i64,
        chunk in 1..12_usize, how in prop::sample::select(vec!["inner", "left", "outer"]),
        replay in any::<bool>(),
    ) {
        let side = |rows: Vec<Row>, left| sorted(rows.into_iter()
            .filter(|row| row.key.is_some() && row.time.is_some())
                .map(move |row| Row { left, ..row }));
        let arriving = [side(first, is_left_first), side(second, !is_left_first)].concat();
        let newest = arriving.iter().filter_map(|row| row.time).max().unwrap_or(0);
        let (job, mut tables, mut result) =
            (Job::new(&request(how, retention), 2, 1), Tables::default(), BTreeMap::new());
        for rows in arriving.chunks(chunk) {
            for out in job.epoch(rows, replay).rows {
                result.insert((out[0].unwrap() as u8, out[1].max(out[3]).unwrap()),
                    (out[2], out[4]));
            }
            rows.iter().for_each(|row| tables.put(row));
        }
        for key in 0..3 {
            for time in newest - retention..62 {
                prop_assert_eq!(read(&result, key, time), tables.joined(how, key, time),
                    "key {} at {}", key, time);
            }
        }
    }

    #[test]
    fn rows_in_time_give_the_same_result_for_any_epochs(
        (all, epochs) in rows(any::<bool>(), 1, 60)
            .prop_map(|rows| {
                // Rows of one key and time in two epochs would both go out.
                let mut seen = std::collections::HashSet::new();
                rows.into_iter().filter(|row| seen.insert((row.key, row.time))).collect::<Vec<_>>()
            })
            .prop_flat_map(|rows| (Just(rows.clone()), cut(rows, 0))),
        how in prop::sample::select(vec!["inner", "left", "outer"]), partitions in 1..4_usize,
    ) {
        let parts = Job::new(&request(how, 10), 2, partitions);
        let cut: Vec<Out> = epochs.iter().flat_map(|(rows, replay)| parts.epoch(rows, *replay).rows)
            .collect();
        prop_assert_eq!(sorted(cut), sorted(Job::new(&request(how, 1_000), 2, 1)
            .epoch(&all, false).rows));
    }
}
