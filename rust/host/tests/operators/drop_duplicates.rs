//! Deduplication against its definition, a model that has every row.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{Done, Job, Out, Row, cut, row, rows, sorted};

const WITHIN: i64 = 8;

fn request(within: i64) -> Value {
    json!({
        "kind": "drop_duplicates", "keys": ["k"], "left": ["x"], "within": within,
        "output": [{"name": "k", "from": "key", "index": 0}, {"name": "t", "from": "time"},
            {"name": "x", "from": "left", "index": 0}],
    })
}

fn job() -> Job {
    Job::new(&request(WITHIN), 1, 1)
}

fn out(rows: &[Row]) -> Vec<Out> {
    rows.iter()
        .map(|row| vec![row.key.map(i64::from), row.time, row.number])
        .collect()
}

/// All rows that were not late when they arrived, duplicates included.
#[derive(Default)]
struct Model {
    seen: Vec<Row>,
}

impl Model {
    fn epoch(&mut self, job: &Job, rows: &[Row]) -> Vec<Row> {
        let times = |partition: usize| {
            self.seen
                .iter()
                .filter(move |seen| job.partition(seen.key) == partition)
                .filter_map(|seen| seen.time)
        };
        let stream_times: Vec<Option<i64>> = (0..job.databases.len())
            .map(|partition| times(partition).max())
            .collect();
        let mut out = Vec::new();
        for row in sorted(rows.iter().copied()) {
            let Some(time) = row.time else { continue };
            if stream_times[job.partition(row.key)]
                .is_some_and(|stream_time| time < stream_time - WITHIN)
            {
                continue;
            }
            let near = |seen: &Row| {
                seen.key == row.key && seen.time.is_some_and(|seen| (seen - time).abs() <= WITHIN)
            };
            if !self.seen.iter().any(near) {
                out.push(row);
            }
            self.seen.push(row);
        }
        out
    }
}

#[test]
fn the_first_row_goes_out_and_rows_near_it_do_not() {
    let given = [row(1, 0, 1), row(1, 8, 2), row(1, 17, 3), row(2, 8, 4)];
    let done = job().epoch(&given, false);
    assert_eq!(done.rows, out(&[given[0], given[3], given[2]]));
}

#[test]
fn a_dropped_duplicate_counts_as_an_earlier_row() {
    let job = job();
    for (time, rows) in [(0, 1), (6, 0), (12, 0), (18, 0), (27, 1)] {
        assert_eq!(
            job.epoch(&[row(1, time, 1)], false).rows.len(),
            rows,
            "at {time}"
        );
    }
}

#[test]
fn late_rows_are_compared_on_both_sides_and_refused_beyond_within() {
    let job = job();
    job.epoch(&[row(1, 100, 1), row(2, 92, 2)], false);
    let Done { rows, counts } = job.epoch(&[row(1, 92, 3), row(3, 92, 4), row(3, 91, 5)], false);
    assert_eq!((rows, counts.late), (out(&[row(3, 92, 4)]), 1));
}

#[test]
fn nulls_are_a_key_and_a_row_without_time_is_dropped() {
    let null = Row {
        key: None,
        ..row(0, 1, 1)
    };
    let done = job().epoch(
        &[
            null,
            Row {
                time: Some(3),
                ..null
            },
            Row {
                time: None,
                ..row(1, 0, 2)
            },
        ],
        false,
    );
    assert_eq!((done.rows, done.counts.dropped), (out(&[null]), 1));
}

#[test]
fn a_heartbeat_makes_older_rows_late() {
    let job = job();
    job.epoch(&[row(1, 0, 1)], false);
    assert_eq!(job.beat(20).rows, Vec::<Out>::new());
    let Done { rows, counts } = job.epoch(&[row(2, 11, 2), row(2, 12, 3)], true);
    assert_eq!((rows, counts.late), (out(&[row(2, 12, 3)]), 1));
}

#[test]
fn old_keys_are_deleted_from_the_state() {
    let job = job();
    for time in 0..2_000_i64 {
        job.epoch(&[row((time % 200) as u8, time * 10, 1)], false);
    }
    let mut tx = job.databases[0].begin().unwrap();
    let mut found = 0;
    let all = (holdfast_core::Timestamp::MIN, holdfast_core::Timestamp::MAX);
    let mut scan = job.databases[0]
        .window("seen")
        .unwrap()
        .fetch_range(&mut tx, None, None, all.0, all.1, false)
        .unwrap();
    scan.for_each(&mut |_, _| {
        found += 1;
        true
    })
    .unwrap();
    assert_eq!(found, 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn results_equal_the_definition_for_any_lateness_and_any_epochs(
        epochs in rows(Just(true), 1, 60).prop_flat_map(|rows| cut(rows, 30)),
        partitions in 1..4_usize,
    ) {
        let (job, mut model) = (Job::new(&request(WITHIN), 1, partitions), Model::default());
        for (rows, replay) in &epochs {
            let expected = model.epoch(&job, rows);
            prop_assert_eq!(sorted(job.epoch(rows, *replay).rows), sorted(out(&expected)));
        }
    }

    #[test]
    fn rows_in_time_give_the_same_result_for_any_epochs(
        (all, epochs) in rows(Just(true), 1, 60)
            .prop_flat_map(|rows| (Just(rows.clone()), cut(rows, 0))),
    ) {
        // Which of two rows of one key and time goes out is not defined, so their numbers are not
        // compared.
        let known = |rows: Vec<Out>| sorted(rows.into_iter().map(|row| row[..2].to_vec()));
        let (whole, parts) = (job(), job());
        let cut: Vec<Out> = epochs.iter().flat_map(|(rows, replay)| parts.epoch(rows, *replay).rows)
            .collect();
        prop_assert_eq!(known(cut), known(whole.epoch(&all, false).rows));
    }
}
