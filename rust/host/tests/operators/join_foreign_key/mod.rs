//! The join by a foreign key, through both of its stages, against the join of two tables.
//!
//! A left row's number determines its foreign key: the remainder of the number divided by 4, where
//! 3 stands for no foreign key.

pub mod stages;

use std::collections::BTreeMap;

use proptest::prelude::*;

use self::stages::{Both, foreign};
use crate::support::{Out, Row, cut, right, row, rows, sorted};

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

fn deleted(row: Row) -> Row {
    Row {
        number: None,
        ..row
    }
}

#[test]
fn a_change_of_either_side_emits_the_joined_row_again() {
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
        both.epoch(&[deleted(right(1, 5, 0))], true),
        [out((4, None), Some((5, None)))]
    );
    assert_eq!(
        both.epoch(&[right(1, 6, 60)], true),
        [out((4, Some(9)), Some((6, Some(60))))]
    );
    assert_eq!(
        both.epoch(&[deleted(row(1, 7, 0))], true),
        [out((7, None), None)]
    );
    assert_eq!(both.epoch(&[right(1, 8, 80)], true), Vec::<Out>::new());
}

#[test]
fn a_row_with_a_changed_foreign_key_no_longer_joins_the_old_right_row() {
    let mut both = Both::new("inner", 1_000, 2);
    both.epoch(&[row(1, 2, 5), right(1, 1, 10), right(2, 1, 20)], true);
    assert_eq!(
        both.epoch(&[row(1, 3, 6)], true),
        [out((3, Some(6)), Some((1, Some(20))))]
    );
    // The old right row has no more results, the new one has. The result is withdrawn if the
    // foreign key has no right row, and if it is null.
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
fn left_rows_without_a_right_row_or_a_foreign_key_go_out_in_a_left_join() {
    let mut both = Both::new("left", 1_000, 2);
    assert_eq!(both.epoch(&[row(1, 2, 5)], true), [out((2, Some(5)), None)]);
    assert_eq!(both.epoch(&[row(1, 3, 3)], true), [out((3, Some(3)), None)]);
    assert_eq!(
        both.epoch(&[deleted(row(1, 4, 0))], true),
        [out((4, None), None)]
    );
}

#[test]
fn a_late_left_row_never_gives_a_result() {
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
fn a_row_is_never_late_for_the_partition_of_its_foreign_key() {
    let mut both = Both::new("inner", 10, 3);
    // Left keys 0 and 1 are in two partitions of the first stage. Their foreign key is in one
    // partition of the second.
    both.epoch(&[row(0, 100, 1), right(1, 1, 9), right(1, 100, 10)], true);
    let rows = [
        out((50, Some(1)), Some((1, Some(9)))),
        out((50, Some(1)), Some((100, Some(10)))),
    ];
    assert_eq!(both.epoch(&[row(1, 50, 1)], true), rows);
    let rows = both.epoch(&[right(1, 101, 11)], true);
    assert_eq!(sorted(rows.iter().map(|row| row[0])), [Some(0), Some(1)]);
}

#[test]
fn result_is_the_same_for_any_cut_of_rows_that_span_more_than_the_retention() {
    // Both left rows leave the right key 1: key 1 at time 5, key 0 long after it.
    let epochs = [
        [row(1, 2, 5), row(0, 3, 1), right(1, 1, 10), right(1, 3, 30)],
        [
            row(1, 5, 6),
            row(0, 20, 4),
            right(2, 1, 60),
            right(2, 6, 61),
        ],
    ];
    let run = |epochs: &[&[Row]]| {
        let mut both = Both::new("inner", 2, 2);
        let rows = epochs.iter().flat_map(|rows| both.epoch(rows, true));
        sorted(rows.collect::<Vec<Out>>())
    };
    let whole = run(&[&epochs.concat()]);
    assert!(whole.contains(&out((2, Some(5)), Some((3, Some(30))))));
    assert_eq!(whole, run(&[&epochs[0], &epochs[1]]));
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
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// The rows of each side arrive in the order of time, both sides mixed in any order.
    #[test]
    fn the_result_is_the_join_of_the_tables_at_any_time(
        (lefts, rights) in (rows(Just(true), 0, 40), rows(Just(false), 0, 40)),
        takes in prop::collection::vec(any::<bool>(), 80),
        retention in prop_oneof![0..20_i64, Just(1_000)], is_right_delayed in any::<bool>(),
        chunk in 1..12_usize, how in prop::sample::select(vec!["inner", "left"]),
        partitions in 1..4_usize, replay in any::<bool>(),
    ) {
        // With a short history, one side arrives wholly after the other. The result is the join
        // within the history.
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
                // The row with the greatest left time up to this time; of several, the one with the
                // greatest right time.
                let mut found = result.iter()
                    .filter(|((of, at, since), _)| *of == key && *at <= time
                        && since.is_none_or(|since| since <= time));
                let read = found.next_back()
                    .and_then(|(_, (left, right))| Some(((*left)?, *right)));
                prop_assert_eq!(read, tables.joined(how, key, time), "key {} at {}", key, time);
            }
        }
    }

    /// Rows may be late. Of a key's results with the greatest left time, the last one is the join
    /// of the newest rows.
    #[test]
    fn the_newest_rows_of_the_result_are_the_join_of_the_newest_rows(
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
            // If several rows have one key and time, the one whose columns sort last wins.
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
