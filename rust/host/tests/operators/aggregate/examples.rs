//! Examples of sessions, sliding windows and variances.

use serde_json::json;

use super::model::{Kind, Settings, out};
use crate::support::{Done, Job, Row, row};

#[test]
fn a_row_between_two_sessions_merges_them() {
    let job = Settings::new(Kind::Session, "update", 100).job(1);
    let starts = |done: Done| {
        done.rows
            .iter()
            .map(|row| (row[1].unwrap(), row[2].unwrap(), row[3].unwrap()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        starts(job.epoch(&[row(1, 0, 1), row(1, 10, 2), row(2, 5, 3)], false)),
        [(0, 8, 1), (5, 13, 1), (10, 18, 1)]
    );
    // The merged sessions are not emitted: the new one begins no later and ends no earlier than
    // either.
    assert_eq!(starts(job.epoch(&[row(1, 5, 4)], false)), [(0, 18, 3)]);
    // A row at the very end of a session is in it, one later is not.
    assert_eq!(starts(job.epoch(&[row(1, 19, 5)], true)), [(19, 27, 1)]);
    assert_eq!(starts(job.epoch(&[row(1, 18, 6)], false)), [(0, 27, 5)]);
}

#[test]
fn a_session_is_emitted_once_when_it_closes_and_is_never_reopened() {
    let job = Settings::new(Kind::Session, "close", 2).job(1);
    let out = |done: Done| {
        (
            done.rows
                .iter()
                .map(|row| (row[1].unwrap(), row[3].unwrap()))
                .collect::<Vec<_>>(),
            done.counts.late,
        )
    };
    assert_eq!(
        out(job.epoch(&[row(1, 0, 1), row(2, 9, 1)], false)),
        (vec![], 0)
    );
    assert_eq!(out(job.epoch(&[row(2, 11, 1)], false)), (vec![(0, 1)], 0));
    // A row at 0 is in the closed session. Rows at 0 and 8 together make an open session.
    assert_eq!(out(job.epoch(&[row(1, 0, 1)], false)), (vec![], 1));
    assert_eq!(
        out(job.epoch(&[row(1, 0, 1), row(1, 8, 1)], false)),
        (vec![], 0)
    );
    assert_eq!(
        out(job.epoch(&[row(2, 40, 1)], false)),
        (vec![(0, 2), (9, 2)], 0)
    );
}

#[test]
fn sliding_windows_are_those_of_kip_450() {
    let job = Settings {
        kind: Kind::Sliding,
        emit: "update",
        grace: None,
        last: true,
    }
    .job(1);
    let given = [row(1, 0, 1), row(1, 6, 2), row(1, 8, 3), row(1, 20, 4)];
    let found: Vec<Vec<i64>> = job
        .epoch(&given, false)
        .rows
        .iter()
        .map(|row| [1, 2, 3, 6].map(|n| row[n].unwrap()).to_vec())
        .collect();
    // Sorted by start: for each row, the window that ends with it and the window that begins after
    // it, if that window has rows.
    assert_eq!(
        found,
        [
            [-8, 0, 1, 1],
            [-2, 6, 2, 3],
            [0, 8, 3, 6],
            [1, 9, 2, 5],
            [7, 15, 1, 3],
            [12, 20, 1, 4]
        ]
    );
}

#[test]
fn a_session_with_the_same_start_as_a_closed_one_starts_empty() {
    let mut job = Settings {
        grace: None,
        ..Settings::new(Kind::Session, "update", 0)
    }
    .job(1);
    job.epoch(&[row(1, 0, 42), row(2, 80, 1)], false);
    job.restart(&Settings::new(Kind::Session, "update", 0).request());
    let members: Vec<Row> = (0..=10).map(|n| row(1, n * 8, n)).collect();
    assert_eq!(
        job.epoch(&members, false).rows,
        [out(Kind::Session, Some(1), 0, &members)]
    );
}

#[test]
fn variances_are_those_of_all_rows() {
    let functions = ["variance", "stddev", "var_pop", "stddev_pop"];
    let aggregates = functions.map(|name| json!({"name": name, "function": name, "column": 0}));
    for window in [json!(null), json!({"kind": "session", "gap": 100})] {
        let request = json!({"kind": "aggregate", "keys": ["k"], "left": ["x"], "timed": true,
            "window": window, "aggregates": aggregates});
        let job = Job::new(&request, 1, 1);
        let check = |numbers: &[i64], expected: [Option<f64>; 4]| {
            let rows: Vec<Row> = numbers
                .iter()
                .map(|number| row(1, *number, *number))
                .collect();
            let done = job.epoch(&rows, true).rows;
            let found = &done[0][done[0].len() - 4..];
            for (found, expected) in found.iter().zip(expected) {
                let found = found.map(|bits| f64::from_bits(bits.cast_unsigned()));
                let is_near = match (found, expected) {
                    (Some(found), Some(expected)) => (found - expected).abs() < 1e-9,
                    (found, expected) => found.is_none() && expected.is_none(),
                };
                assert!(is_near, "{numbers:?}: {found:?} and {expected:?}");
            }
        };
        check(&[2], [None, None, Some(0.0), Some(0.0)]);
        check(
            &[9, 4, 4],
            [
                Some(107.0 / 12.0),
                Some((107.0_f64 / 12.0).sqrt()),
                Some(6.6875),
                Some(6.6875_f64.sqrt()),
            ],
        );
        check(
            &[4, 5, 5, 7],
            [
                Some(32.0 / 7.0),
                Some((32.0_f64 / 7.0).sqrt()),
                Some(4.0),
                Some(2.0),
            ],
        );
    }
}
