//! The as-of join with grace, against a model that has every row.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{Job, Out, Row, cut, right, row, rows, sorted};

/// The request of a join of `x` with `v`.
pub fn request(how: &str, retention: i64, grace: i64, last: bool) -> Value {
    json!({
        "kind": "join_asof", "keys": ["k"], "left": ["x"], "right": ["v"], "how": how,
        "history_retention": retention,
        "grace": grace, "last": last,
        "output": [
            {"name": "k", "from": "key", "index": 0}, {"name": "t", "from": "time"},
            {"name": "x", "from": "left", "index": 0},
            {"name": "since", "from": "right_time"}, {"name": "v", "from": "right", "index": 0},
        ],
    })
}

fn job(grace: i64) -> Job {
    Job::new(&request("left", 100, grace, false), 2, 1)
}

/// (left number, right number)
fn joined(rows: &[Out]) -> Vec<(i64, Option<i64>)> {
    sorted(rows.iter().map(|row| (row[2].unwrap(), row[4])))
}

/// One partition: versions with the rules of the store, and the waiting left rows.
#[derive(Default)]
struct Model {
    versions: BTreeMap<u8, BTreeMap<i64, Row>>,
    table_time: Option<i64>,
    stream_time: Option<i64>,
    waiting: Vec<Row>,
}

impl Model {
    fn epoch(&mut self, rows: &[Row], retention: i64, grace: i64) -> Vec<Out> {
        let keyed = |row: &&Row| row.left && row.key.is_some();
        self.stream_time = self
            .stream_time
            .max(rows.iter().filter(keyed).filter_map(|row| row.time).max());
        let mut all = std::mem::take(&mut self.waiting);
        all.extend(rows);
        let mut result = Vec::new();
        for row in sorted(all) {
            match (row.key, row.time) {
                (Some(_), Some(time))
                    if row.left && self.stream_time.is_some_and(|now| time > now - grace) =>
                {
                    self.waiting.push(row)
                }
                (Some(key), Some(time)) if row.left => {
                    result.push(out(&row, self.find(key, time, retention)))
                }
                (Some(key), Some(time))
                    if self.table_time.is_none_or(|now| time >= now - retention) =>
                {
                    self.versions.entry(key).or_default().insert(time, row);
                    self.table_time = self.table_time.max(Some(time));
                }
                _ if row.left => result.push(out(&row, None)),
                _ => {}
            }
        }
        result
    }

    fn find(&self, key: u8, time: i64, retention: i64) -> Option<&Row> {
        let versions = self.versions.get(&key)?;
        let newest = versions
            .last_key_value()
            .filter(|(begin, _)| **begin <= time);
        match newest {
            Some((_, row)) => Some(row),
            None if self.table_time.is_some_and(|now| time < now - retention) => None,
            None => versions.range(..=time).next_back().map(|(_, row)| row),
        }
    }
}

fn out(left: &Row, right: Option<&Row>) -> Out {
    vec![
        left.key.map(i64::from),
        left.time,
        left.number,
        right.and_then(|row| row.time),
        right.and_then(|row| row.number),
    ]
}

#[test]
fn left_rows_wait_for_the_stream_time() {
    // A left row that is late when it arrives is joined at once, and releases no other row.
    let job = job(2);
    let rows: Vec<Row> = (0..4)
        .flat_map(|n| [right(1, n, n), row(1, n, n)])
        .collect();
    assert_eq!(
        joined(&job.epoch(&rows, true).rows),
        [(0, Some(0)), (1, Some(1))]
    );
    assert_eq!(
        joined(&job.epoch(&[row(1, 0, 9)], true).rows),
        [(9, Some(0))]
    );
    assert_eq!(
        joined(&job.epoch(&[row(2, 5, 5)], true).rows),
        [(2, Some(2)), (3, Some(3))]
    );
}

#[test]
fn a_right_row_late_by_less_than_the_grace_is_matched() {
    let job = job(5);
    assert_eq!(
        job.epoch(&[right(1, 0, 1), row(1, 10, 1), row(1, 10, 2)], true)
            .rows,
        Vec::<Out>::new()
    );
    assert_eq!(
        job.epoch(&[right(1, 8, 2), row(1, 10, 3), row(1, 14, 4)], true)
            .rows,
        Vec::<Out>::new()
    );
    // The row that releases the waiting ones arrives together with one more right row.
    let done = job.epoch(&[right(1, 9, 3), row(1, 15, 5)], true);
    assert_eq!(
        joined(&done.rows),
        [(1, Some(3)), (2, Some(3)), (3, Some(3))]
    );
    assert_eq!(done.counts.matched, 3);
}

#[test]
fn only_left_rows_or_the_end_of_a_static_frame_release_left_rows() {
    assert_eq!(
        job(5)
            .epoch(&[row(1, 10, 1), right(1, 1_000, 2)], true)
            .rows,
        Vec::<Out>::new()
    );
    let done = Job::new(&request("left", 100, 5, true), 2, 1)
        .epoch(&[right(1, 9, 2), row(1, 10, 1)], false);
    assert_eq!(joined(&done.rows), [(1, Some(2))]);
}

#[test]
fn a_heartbeat_releases_left_rows_and_expires_no_history() {
    let job = job(5);
    job.epoch(&[right(1, 0, 10), right(1, 3, 30), row(1, 2, 1)], false);
    assert_eq!(job.beat(6).rows, Vec::<Out>::new());
    assert_eq!(joined(&job.beat(7).rows), [(1, Some(10))]);
    assert_eq!(job.beat(10_000).rows, Vec::<Out>::new());
    // The row is late for the stream time, but not for the table.
    assert_eq!(
        joined(&job.epoch(&[row(1, 1, 2)], true).rows),
        [(2, Some(10))]
    );
}

#[test]
fn a_grace_beyond_the_history_is_refused() {
    let kind: holdfast_host::operator::OperatorKind =
        serde_json::from_value(request("left", 10, 11, false)).unwrap();
    let error = kind.spec().start(&crate::support::schema(2)).err().unwrap();
    assert!(
        error
            .to_string()
            .contains("grace is 11; it must be from 0 to history_retention, 10"),
        "{error}"
    );
}

#[test]
fn right_rows_may_be_ahead_by_the_retention_minus_the_grace() {
    let job = Job::new(&request("left", 10, 4, false), 2, 1);
    job.epoch(&[right(1, 0, 1), row(1, 5, 1), row(1, 8, 2)], true);
    // The waiting left rows have times after 8 - 4, and the version in force at 14 - 10 is known.
    job.epoch(&[right(1, 14, 2)], true);
    assert_eq!(
        joined(&job.epoch(&[row(1, 9, 3)], true).rows),
        [(1, Some(1))]
    );
    // Now versions are known from 20 - 10 on. The row that waits at 8 finds none, and a right row
    // at 8 is refused as late, whatever its key.
    job.epoch(&[right(2, 20, 3)], true);
    let done = job.epoch(&[row(1, 12, 4), right(3, 8, 5)], true);
    assert_eq!((joined(&done.rows), done.counts.late), (vec![(2, None)], 1));
    assert_eq!(done.counts.expired, 1, "key 1 has changed since 8");
}

#[test]
fn left_rows_before_the_history_are_counted() {
    for grace in [0, 4] {
        let job = Job::new(&request("left", 10, grace, true), 2, 1);
        let done = job.epoch(
            &[
                right(1, 0, 1),
                right(1, 20, 2),
                right(2, 5, 3),
                right(2, 40, 4),
            ],
            true,
        );
        assert_eq!(done.counts.expired, 0);
        // Key 2 changed at 40, key 1 has not changed since 20, key 3 has never had a row.
        let lefts = [row(2, 29, 1), row(1, 29, 2), row(3, 29, 3), row(2, 30, 4)];
        let done = job.epoch(&lefts, true);
        assert_eq!(
            joined(&done.rows),
            [(1, None), (2, Some(2)), (3, None), (4, Some(3))],
            "grace {grace}"
        );
        assert_eq!(done.counts.expired, 1, "grace {grace}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn results_equal_the_model_for_any_lateness_and_any_epochs(
        epochs in rows(any::<bool>(), 1, 60).prop_flat_map(|rows| cut(rows, 30)),
        (retention, grace) in (0..40_i64)
            .prop_flat_map(|retention| (Just(retention), 0..=retention)), partitions in 1..4_usize,
    ) {
        let job = Job::new(&request("left", retention, grace, false), 2, partitions);
        let mut models: Vec<Model> = (0..partitions).map(|_| Model::default()).collect();
        for (rows, replay) in &epochs {
            let expected: Vec<Out> = models.iter_mut().enumerate().flat_map(|(partition, model)| {
                let ours: Vec<Row> = rows.iter().filter(|row| job.partition(row.key) == partition)
                    .copied().collect();
                model.epoch(&ours, retention, grace)
            }).collect();
            prop_assert_eq!(sorted(job.epoch(rows, *replay).rows), sorted(expected));
        }
    }

    #[test]
    fn rows_within_the_grace_give_the_static_join_for_any_epochs(
        epochs in rows(any::<bool>(), 1, 60)
            .prop_map(|mut rows| {
                // Of right rows of one key and time the last to arrive wins, which depends on the
                // cut.
                let mut seen = std::collections::HashSet::new();
                rows.retain(|row| row.left || seen.insert((row.key, row.time)));
                rows
            })
            .prop_flat_map(|rows| cut(rows, 6)),
        how in prop::sample::select(vec!["inner", "left"]), partitions in 1..4_usize,
        retention in 7..40_i64,
    ) {
        let parts = Job::new(&request(how, retention, 7, false), 2, partitions);
        let (mut epochs, mut clocks) = (epochs, vec![None; partitions]);
        for (rows, _) in &mut epochs {
            for row in rows.iter().filter(|row| row.left && row.key.is_some()) {
                let clock = &mut clocks[parts.partition(row.key)];
                *clock = row.time.max(*clock);
            }
            // Right rows are ahead of the left ones by at most the retention minus the grace.
            rows.retain(|row| row.left || row.time <= clocks[parts.partition(row.key)]
                .map(|clock| clock + retention - 7));
        }
        let all: Vec<Row> = epochs.iter().flat_map(|(rows, _)| rows.clone()).collect();
        let mut cut: Vec<Out> = epochs.iter()
            .flat_map(|(rows, replay)| parts.epoch(rows, *replay).rows).collect();
        // A row far ahead releases the last ones.
        let ahead: Vec<Row> = (0..3).map(|key| row(key, 500, 500)).collect();
        cut.extend(parts.epoch(&ahead, false).rows);
        let given = sorted(cut);
        let whole = Job::new(&request(how, 1_000, 0, false), 2, partitions).epoch(&all, false).rows;
        prop_assert_eq!(given, sorted(whole));
    }
}
