//! The join of two streams against its definition, a model that has every row.

use arrow_array::RecordBatch;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::large;
use crate::support::{Done, Job, Out, Row, cut, right, row, rows, sorted};

const BEFORE: i64 = 3;
const AFTER: i64 = 5;

fn request(how: &str, grace: i64, last: bool) -> Value {
    json!({
        "kind": "join_window", "keys": ["k"], "left": ["x"], "right": ["v"], "how": how,
        "before": BEFORE, "after": AFTER,
        "grace": grace, "last": last,
        "output": [
            {"name": "k", "from": "key", "index": 0}, {"name": "t", "from": "time"},
            {"name": "x", "from": "left", "index": 0},
            {"name": "since", "from": "right_time"}, {"name": "v", "from": "right", "index": 0},
        ],
    })
}

fn job(how: &str, grace: i64, last: bool) -> Job {
    Job::new(&request(how, grace, last), 2, 1)
}

fn out(left: Option<&Row>, right: Option<&Row>) -> Out {
    let key = left.or(right).and_then(|row| row.key).map(i64::from);
    vec![
        key,
        left.and_then(|row| row.time),
        left.and_then(|row| row.number),
        right.and_then(|row| row.time),
        right.and_then(|row| row.number),
    ]
}

fn alone(row: &Row) -> Out {
    if row.left {
        out(Some(row), None)
    } else {
        out(None, Some(row))
    }
}

fn keeps_unmatched(how: &str, left: bool) -> bool {
    how == "outer" || how == if left { "left" } else { "right" }
}

fn is_pair(left: &Row, right: &Row) -> bool {
    let (Some(ours), Some(theirs)) = (left.time, right.time) else {
        return false;
    };
    left.left
        && !right.left
        && left.key.is_some()
        && left.key == right.key
        && (ours - BEFORE..=ours + AFTER).contains(&theirs)
}

/// The join of static rows, as SQL has it.
fn joined(rows: &[Row], how: &str) -> Vec<Out> {
    let mut result = Vec::new();
    for a in rows {
        let matches: Vec<&Row> = rows.iter().filter(|b| is_pair(a, b)).collect();
        result.extend(matches.iter().map(|b| out(Some(a), Some(b))));
        if matches.is_empty() && keeps_unmatched(how, a.left) && !rows.iter().any(|b| is_pair(b, a))
        {
            result.push(alone(a));
        }
    }
    sorted(result)
}

/// Every row that was in time, with whether it has gone out.
#[derive(Default)]
struct Model {
    taken: Vec<(Row, bool)>,
    late: u64,
}

impl Model {
    fn stream_time(&self, job: &Job, partition: usize) -> Option<i64> {
        let ours = self
            .taken
            .iter()
            .filter(|(row, _)| job.partition(row.key) == partition && row.key.is_some());
        ours.filter_map(|(row, _)| row.time).max()
    }

    fn epoch(&mut self, job: &Job, rows: &[Row], how: &str, grace: i64, last: bool) -> Vec<Out> {
        let mut result = Vec::new();
        let before: Vec<Option<i64>> = (0..job.databases.len())
            .map(|partition| self.stream_time(job, partition))
            .collect();
        for row in rows {
            let (Some(_), Some(time)) = (row.key, row.time) else {
                result.extend(keeps_unmatched(how, row.left).then(|| alone(row)));
                continue;
            };
            if before[job.partition(row.key)].is_some_and(|stream_time| time < stream_time - grace)
            {
                self.late += 1;
                continue;
            }
            let mut is_out = false;
            for (other, other_is_out) in &mut self.taken {
                let (left, right) = if row.left {
                    (row, &*other)
                } else {
                    (&*other, row)
                };
                if is_pair(left, right) {
                    result.push(out(Some(left), Some(right)));
                    (is_out, *other_is_out) = (true, true);
                }
            }
            self.taken.push((*row, is_out));
        }
        let now: Vec<Option<i64>> = (0..job.databases.len())
            .map(|partition| self.stream_time(job, partition))
            .collect();
        for (row, is_out) in self
            .taken
            .iter_mut()
            .filter(|(row, is_out)| !is_out && keeps_unmatched(how, row.left))
        {
            let waits = if row.left { AFTER } else { BEFORE };
            let stream_time = now[job.partition(row.key)].unwrap();
            if last || row.time.unwrap() + waits + grace < stream_time {
                result.push(alone(row));
                *is_out = true;
            }
        }
        sorted(result)
    }
}

#[test]
fn rows_are_paired_within_the_window_and_at_both_ends() {
    let done = job("inner", 0, true).epoch(
        &[
            row(1, 10, 1),
            right(1, 6, 1),
            right(1, 7, 2),
            right(1, 15, 3),
            right(1, 16, 4),
            right(2, 10, 5),
        ],
        false,
    );
    assert_eq!(
        sorted(done.rows),
        [
            out(Some(&row(1, 10, 1)), Some(&right(1, 7, 2))),
            out(Some(&row(1, 10, 1)), Some(&right(1, 15, 3)))
        ]
    );
    assert_eq!(done.counts.matched, 2);
}

#[test]
fn pairs_go_out_by_key_and_the_pairs_of_new_left_rows_come_first() {
    let job = Job::new(&request("inner", 10, false), 2, 1);
    let stored = [row(1, 10, 1), right(1, 12, 2), row(2, 11, 3)];
    assert_eq!(
        job.epoch(&stored, false).rows,
        [out(Some(&stored[0]), Some(&stored[1]))]
    );
    let new = [
        right(1, 8, 4),
        right(2, 9, 5),
        row(1, 11, 6),
        right(1, 13, 7),
        row(1, 13, 8),
    ];
    let pair = |left: &Row, right: &Row| out(Some(left), Some(right));
    assert_eq!(
        job.epoch(&[new[4], new[3], new[2], new[1], new[0]], false)
            .rows,
        [
            pair(&new[2], &new[0]),
            pair(&new[2], &stored[1]),
            pair(&new[2], &new[3]),
            pair(&new[4], &stored[1]),
            pair(&new[4], &new[3]),
            pair(&stored[0], &new[0]),
            pair(&stored[0], &new[3]),
            pair(&stored[2], &new[1]),
        ]
    );
}

#[test]
fn rows_without_a_match_go_out_when_their_window_has_closed() {
    let job = job("outer", 2, false);
    assert_eq!(
        job.epoch(&[row(1, 0, 1), right(2, 0, 2)], false).rows,
        Vec::<Out>::new()
    );
    // The right row could be matched until 0 + 3 + 2, the left one until 0 + 5 + 2.
    assert_eq!(job.epoch(&[row(3, 5, 3)], true).rows, Vec::<Out>::new());
    assert_eq!(
        job.epoch(&[row(3, 6, 4)], true).rows,
        [alone(&right(2, 0, 2))]
    );
    assert_eq!(job.epoch(&[right(3, 7, 5)], true).rows.len(), 2);
    assert_eq!(
        job.epoch(&[right(3, 8, 6)], true).rows,
        [
            out(Some(&row(3, 5, 3)), Some(&right(3, 8, 6))),
            out(Some(&row(3, 6, 4)), Some(&right(3, 8, 6))),
            alone(&row(1, 0, 1)),
        ]
    );
}

#[test]
fn a_heartbeat_emits_unmatched_rows_and_makes_others_late() {
    let job = job("left", 2, false);
    job.epoch(&[row(1, 0, 1)], false);
    assert_eq!(job.beat(7).rows, Vec::<Out>::new());
    assert_eq!(job.beat(8).rows, [alone(&row(1, 0, 1))]);
    let Done { rows, counts } = job.epoch(&[row(1, 5, 2), row(1, 6, 3)], true);
    assert_eq!((rows, counts.late), (Vec::<Out>::new(), 1));
}

#[test]
fn late_rows_are_refused_beyond_the_grace() {
    let job = job("left", 2, false);
    job.epoch(&[row(1, 10, 1)], false);
    let Done { rows, counts } = job.epoch(&[right(1, 8, 2), right(1, 7, 3), row(1, 7, 4)], false);
    assert_eq!(
        (rows, counts.late),
        (vec![out(Some(&row(1, 10, 1)), Some(&right(1, 8, 2)))], 2)
    );
}

#[test]
fn nulls_match_nothing() {
    let rows = [
        Row {
            key: None,
            ..row(0, 1, 1)
        },
        Row {
            key: None,
            ..right(0, 1, 2)
        },
        Row {
            time: None,
            ..row(1, 0, 3)
        },
    ];
    let done = job("left", 0, true).epoch(&rows, false);
    assert_eq!(
        (sorted(done.rows), done.counts.dropped),
        (sorted([alone(&rows[0]), alone(&rows[2])]), 1)
    );
}

#[test]
fn closed_rows_are_deleted_even_if_one_side_is_idle() {
    let job = job("inner", 0, false);
    job.epoch(&[right(1, 0, 1)], false);
    for time in 1..100 {
        job.epoch(&[row(1, time * 10, 1)], time % 2 == 0);
    }
    for store in ["left", "right"] {
        let (mut tx, mut found) = (job.databases[0].begin().unwrap(), 0);
        let all = (holdfast_core::Timestamp::MIN, holdfast_core::Timestamp::MAX);
        let mut scan = job.databases[0]
            .window(store)
            .unwrap()
            .fetch_range(&mut tx, None, None, all.0, all.1, false)
            .unwrap();
        scan.for_each(&mut |_, _| {
            found += 1;
            true
        })
        .unwrap();
        assert_eq!(found, i32::from(store == "left"), "{store}");
    }
}

#[test]
fn waiting_rows_that_exceed_a_batch_are_matched() {
    let rows = large::rows(2, false, large::LARGE);
    for how in ["inner", "outer"] {
        let settings = json!({"how": how, "before": 1_000, "after": 1, "grace": 1_000});
        let job = Job::over(
            &large::request("join_window", 2, &settings),
            large::schema(2),
            1,
        );
        let epoch = |rows: &RecordBatch| {
            let (out, counts) = job.partition_epoch(0, rows, None, true);
            assert!(out.iter().all(|batch| large::bytes(batch) <= large::MOST));
            (counts.output_rows as usize, counts.matched as usize)
        };
        assert_eq!(epoch(&rows.slice(1, large::ROWS)), (0, 0));
        assert_eq!(
            epoch(&rows.slice(0, 1)),
            (large::ROWS, large::ROWS),
            "{how}"
        );
    }
}

fn hows() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["inner", "left", "right", "outer"])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn results_equal_the_model_for_any_lateness_and_any_epochs(
        epochs in rows(any::<bool>(), 1, 60).prop_flat_map(|rows| cut(rows, 30)), how in hows(),
        grace in 0..10_i64, partitions in 1..4_usize,
    ) {
        let (job, mut model) = (Job::new(&request(how, grace, false), 2, partitions),
            Model::default());
        let mut late = 0;
        for (rows, replay) in &epochs {
            let done = job.epoch(rows, *replay);
            late += done.counts.late;
            prop_assert_eq!(sorted(done.rows), model.epoch(&job, rows, how, grace, false));
        }
        prop_assert_eq!(late, model.late);
    }

    #[test]
    fn rows_within_the_grace_give_the_static_join_for_any_epochs(
        (all, epochs) in rows(any::<bool>(), 1, 60)
            .prop_flat_map(|rows| (Just(rows.clone()), cut(rows, 6))), how in hows(),
            partitions in 1..4_usize,
    ) {
        let mut parts = Job::new(&request(how, 6, false), 2, partitions);
        let mut cut: Vec<Out> = epochs.iter()
            .flat_map(|(rows, replay)| parts.epoch(rows, *replay).rows).collect();
        parts.set(&request(how, 6, true));
        cut.extend(parts.epoch(&[], false).rows);
        prop_assert_eq!(sorted(cut), joined(&all, how));
        prop_assert_eq!(sorted(job(how, 0, true).epoch(&all, false).rows), joined(&all, how));
    }
}
