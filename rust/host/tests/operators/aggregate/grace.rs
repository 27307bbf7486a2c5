//! A grace or a retention that changes between two epochs.

use super::model::{Kind, Settings, of_static};
use crate::support::{Job, Out, row, sorted};

#[test]
fn open_windows_are_emitted_when_the_grace_becomes_shorter() {
    for kind in [Kind::Hopping, Kind::Sliding, Kind::Session] {
        let given = [
            vec![row(1, 1, 1), row(1, 2, 2)],
            vec![row(1, 40, 3)],
            vec![row(1, 45, 4)],
            vec![row(2, 500, 5)],
        ];
        let mut job = Settings::new(kind, "close", 60).job(1);
        let mut found: Vec<Out> = given[..2]
            .iter()
            .flat_map(|rows| job.epoch(rows, false).rows)
            .collect();
        assert_eq!(found, Vec::<Out>::new());
        job.restart(&Settings::new(kind, "close", 0).request());
        found.extend(
            given[2..]
                .iter()
                .flat_map(|rows| job.epoch(rows, false).rows),
        );
        assert_eq!(
            sorted(found),
            of_static(kind, &given[..3].concat()),
            "{kind:?}"
        );
    }
}

#[test]
fn closed_windows_stay_closed_when_grace_or_retention_become_longer() {
    for kind in [Kind::Hopping, Kind::Sliding, Kind::Session] {
        let update = |retention: i64| {
            let mut request = Settings {
                kind,
                emit: "update",
                grace: None,
                last: false,
            }
            .request();
            request["retention"] = retention.into();
            request
        };
        for (before, after) in [
            (
                Settings::new(kind, "close", 0).request(),
                Settings::new(kind, "close", 60).request(),
            ),
            (Settings::new(kind, "close", 0).request(), update(3_600)),
            (update(20), update(3_600)),
        ] {
            let mut job = Job::new(&before, 1, 1);
            job.epoch(&[row(1, 1, 1)], false);
            job.epoch(&[row(2, 40, 3)], false);
            job.restart(&after);
            let done = job.epoch(&[row(1, 3, 4)], false);
            assert_eq!(
                (done.rows, done.counts.late),
                (vec![], 1),
                "{kind:?}: {before} {after}"
            );
        }
    }
}

/// A copy of the state that was behind when the retention became longer still has a session that
/// has expired in the others. The log of the others knows nothing of it.
#[test]
fn a_session_that_only_some_copies_still_have_takes_no_items_with_it() {
    let kind = Kind::Session;
    let mut job = Settings::new(kind, "update", 10).job(1);
    job.epoch(&[row(1, 20, 1), row(1, 27, 2), row(2, 45, 3)], false);
    job.epoch(&[row(2, 60, 4)], false);
    let longer = Settings::new(kind, "update", 100).request();
    // The stores keep the shorter retention here: the closed session has expired.
    job.set(&longer);
    let again = [row(1, 20, 5), row(1, 27, 6), row(1, 34, 7), row(1, 42, 8)];
    assert_eq!(
        job.epoch(&again, false).rows,
        of_static(kind, &again),
        "a new session begins with the closed one and ends after the closed time"
    );
    // The restored stores have the longer retention for all records: both sessions are there.
    job.restart(&longer);
    let last = [row(1, 35, 9)];
    assert_eq!(
        job.epoch(&last, false).rows,
        of_static(kind, &[&again[..], &last].concat())
    );
}
