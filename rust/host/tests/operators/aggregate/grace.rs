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
