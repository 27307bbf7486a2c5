//! What an aggregation leaves in its stores.

use holdfast_core::{Database, FigureValue, SessionQuery, Step, Timestamp, Transaction};
use serde_json::json;

use super::model::{Kind, Settings};
use crate::support::{Job, Row, batch_of, row, schema};

/// The number of groups in a database.
fn groups(db: &Database, tx: &mut Transaction) -> u64 {
    let mut found = 0;
    let mut count = |_, _| {
        found += 1;
        true
    };
    match db.session("groups") {
        Ok(store) => {
            let all = SessionQuery {
                key_from: None,
                key_to: None,
                earliest_end: Timestamp::MIN,
                latest_start: Timestamp::MAX,
                reverse: false,
            };
            store
                .find_sessions(tx, all)
                .unwrap()
                .for_each(&mut |_, _| count((), ()))
                .unwrap();
        }
        Err(_) => {
            let store = db.window("groups").unwrap();
            let mut scan = store
                .fetch_range(tx, None, None, Timestamp::MIN, Timestamp::MAX, false)
                .unwrap();
            scan.for_each(&mut |_, _| count((), ())).unwrap();
        }
    }
    found
}

/// The number of items in a database.
fn items(db: &Database, tx: &mut Transaction) -> u64 {
    let mut found = 0;
    let mut scan = db
        .key_value("items")
        .unwrap()
        .range(tx, None, None, false)
        .unwrap();
    scan.for_each(&mut |_, _| {
        found += 1;
        Step::Next
    })
    .unwrap();
    found
}

#[test]
fn closed_windows_are_deleted_with_their_items() {
    for kind in [Kind::Hopping, Kind::Sliding, Kind::Session] {
        for emit in ["update", "close"] {
            let job = Settings::new(kind, emit, 3).job(1);
            for time in 0..200 {
                job.epoch(&[row((time % 5) as u8, time * 7, time)], false);
            }
            let mut tx = job.databases[0].begin().unwrap();
            let found = items(&job.databases[0], &mut tx);
            assert!((1..50).contains(&found), "{kind:?} {emit}: {found}");
            if emit == "close" {
                assert!(groups(&job.databases[0], &mut tx) < 10, "{kind:?}");
            }
        }
    }
}

/// Rows that are not sorted: a group whose rows come after those of a much later group is stored
/// all the same. [`Job::epoch`] checks that the other order of the rows stores the same.
#[test]
fn order_of_arrival_does_not_decide_which_groups_are_stored() {
    for kind in [Kind::Hopping, Kind::Sliding] {
        let mut request = Settings::new(kind, "update", 3).request();
        request["aggregates"] = json!([{"name": "rows", "function": "count"}]);
        let job = Job::new(&request, 1, 1);
        let done = job.epoch(&[row(1, 1_000, 1), row(1, 0, 2), row(2, 500, 3)], true);
        assert_eq!(done.counts.late, 0, "{kind:?}");
        let store = job.databases[0].window("groups").unwrap();
        assert_eq!(store.dropped_records(), 0, "{kind:?}");
    }
}

#[test]
fn groups_that_are_newer_than_the_state_are_not_looked_up() {
    // Sliding windows also look up the windows that new rows close.
    for kind in [Kind::Hopping, Kind::Session] {
        let job = Settings::new(kind, "update", 3).job(1);
        let looked_up = || {
            let metrics = job.databases[0].metrics().unwrap();
            metrics.of_store("groups", "fetch-batch-records-total")
        };
        for time in [0, 100_000, 200_000] {
            job.epoch(&[row(1, time, 1)], false);
            assert_eq!(looked_up(), Some(FigureValue::Whole(0)), "{kind:?}, {time}");
        }
        job.epoch(&[row(1, 200_000, 3)], false);
        assert_ne!(looked_up(), Some(FigureValue::Whole(0)), "{kind:?}");
    }
}

/// Readers find closed windows until their retention ends, with all their values.
#[test]
fn items_remain_as_long_as_their_windows() {
    for kind in [Kind::Hopping, Kind::Session] {
        let mut request = Settings::new(kind, "update", 3).request();
        request["retention"] = json!(700);
        let job = Job::new(&request, 1, 1);
        for time in 0..400 {
            job.epoch(&[row((time % 5) as u8, time * 7, time)], false);
            let mut tx = job.databases[0].begin().unwrap();
            let groups = groups(&job.databases[0], &mut tx);
            let found = items(&job.databases[0], &mut tx);
            assert!(groups > 90.min(time as u64), "{kind:?}, {time}: {groups}");
            // A group has one row, and a few functions with an item for it.
            assert!(
                (groups..groups * 6).contains(&found),
                "{kind:?}, {time}: {found} items of {groups} groups"
            );
        }
    }
}

/// All windows expire in one epoch, more than a batch of them.
#[test]
fn a_jump_of_the_stream_time_deletes_all_items() {
    for kind in [Kind::Hopping, Kind::Session] {
        let mut request = Settings::new(kind, "update", 3).request();
        request["retention"] = json!(1_000_000);
        let job = Job::new(&request, 1, 1);
        for epoch in 0..10 {
            let times = (epoch * 1_000)..(epoch + 1) * 1_000;
            let rows: Vec<Row> = times.map(|n| row((n % 5) as u8, n * 20, n)).collect();
            job.epoch(&rows, false);
        }
        let mut tx = job.databases[0].begin().unwrap();
        assert!(groups(&job.databases[0], &mut tx) >= 10_000, "{kind:?}");
        job.epoch(&[row(1, 10_000_000, 1)], false);
        let mut tx = job.databases[0].begin().unwrap();
        let found = items(&job.databases[0], &mut tx);
        assert!((1..20).contains(&found), "{kind:?}: {found}");
    }
}

/// The bug: the session was deleted and not written again, although it was emitted.
#[test]
fn a_session_that_grows_beside_a_heartbeat_is_stored() {
    let mut request = Settings {
        grace: None,
        ..Settings::new(Kind::Session, "update", 0)
    }
    .request();
    request["retention"] = json!(50);
    let job = Job::new(&request, 1, 1);
    job.epoch(&[row(1, 100, 1)], false);
    let rows = batch_of(&schema(1), &[row(1, 95, 2)]);
    // Rows and a heartbeat are in one epoch if the query makes its heartbeats itself.
    let (out, _) = job.partition_epoch(0, &rows, Some(200), true);
    assert_eq!(out.len(), 1);
    let mut tx = job.databases[0].begin().unwrap();
    assert_eq!(groups(&job.databases[0], &mut tx), 1);
    assert!(items(&job.databases[0], &mut tx) > 0);
    // The next row expires the session, with its values.
    job.epoch(&[row(2, 300, 3)], false);
    let mut tx = job.databases[0].begin().unwrap();
    assert_eq!(groups(&job.databases[0], &mut tx), 1);
    let found = items(&job.databases[0], &mut tx);
    assert!((1..6).contains(&found), "{found}");
}

#[test]
fn a_new_session_replaces_a_closed_one_with_the_same_key_and_start() {
    let mut request = Settings::new(Kind::Session, "update", 0).request();
    request["retention"] = json!(1_000);
    let job = Job::new(&request, 1, 1);
    job.epoch(&[row(1, 0, 42), row(2, 80, 1)], false);
    let members: Vec<Row> = (0..=10).map(|n| row(1, n * 8, n)).collect();
    assert_eq!(
        job.epoch(&members, false).rows,
        [super::model::out(Kind::Session, Some(1), 0, &members)]
    );
    let mut tx = job.databases[0].begin().unwrap();
    assert_eq!(groups(&job.databases[0], &mut tx), 2);
}

/// The items of a new group are not looked up, and those of a stored group are.
#[test]
fn only_the_items_of_stored_groups_are_read() {
    let mut request = Settings::new(Kind::Session, "update", 1_000).request();
    request["aggregates"] = json!([{"name": "n", "function": "count_distinct", "column": 0}]);
    let job = Job::new(&request, 1, 1);
    let read = || {
        let metrics = job.databases[0].metrics().unwrap();
        let records = metrics.of_store("items", "get-batch-records-total");
        match records.expect("a figure") {
            FigureValue::Whole(records) => records,
            FigureValue::Real(_) => panic!("{records:?} is no count"),
        }
    };
    let count = |rows: &[Row]| job.epoch(rows, false).rows[0][3];
    assert_eq!(count(&[row(1, 0, 1), row(1, 2, 1), row(1, 4, 2)]), Some(2));
    assert_eq!(count(&[row(2, 20, 1)]), Some(1));
    assert_eq!(read(), 0);
    // Each epoch runs twice.
    assert_eq!(count(&[row(1, 6, 2), row(1, 7, 3)]), Some(3));
    assert_eq!(read(), 4);
    // The new start makes a new group, into which the stored one is merged before the rows.
    assert_eq!(count(&[row(1, -3, 3), row(1, -2, 4)]), Some(4));
    assert_eq!(read(), 8);
}

#[test]
fn a_shorter_grace_deletes_the_items_of_the_windows_that_it_closes() {
    for kind in [Kind::Hopping, Kind::Sliding, Kind::Session] {
        let mut job = Settings {
            grace: None,
            ..Settings::new(kind, "update", 0)
        }
        .job(1);
        for time in 0..200 {
            job.epoch(&[row((time % 5) as u8, time * 7, time)], false);
        }
        // If the windows are sessions, this is one that began long ago and is open.
        job.epoch(
            &(0..200)
                .map(|time| row(9, time * 7, time))
                .collect::<Vec<Row>>(),
            false,
        );
        let mut tx = job.databases[0].begin().unwrap();
        let before = items(&job.databases[0], &mut tx);
        assert!(before > 1_000, "{kind:?}: {before}");
        job.restart(&Settings::new(kind, "update", 3).request());
        let out = job.epoch(&[row(9, 200 * 7, 200)], true).rows;
        job.epoch(&[row(9, 201 * 7, 201)], false);
        let mut tx = job.databases[0].begin().unwrap();
        let found = items(&job.databases[0], &mut tx);
        if kind == Kind::Session {
            let members: Vec<Row> = (0..=200).map(|time| row(9, time * 7, time)).collect();
            assert_eq!(out, [super::model::out(kind, Some(9), 0, &members)]);
            assert!((202 * 3..202 * 3 + 50).contains(&found), "{found}");
        } else {
            assert!((1..100).contains(&found), "{kind:?}: {found}");
        }
    }
}

#[test]
fn emitted_windows_are_deleted_when_emit_changes_to_close() {
    for kind in [Kind::Hopping, Kind::Sliding, Kind::Session] {
        let mut long_retention = Settings::new(kind, "update", 3).request();
        long_retention["retention"] = json!(100_000);
        let mut job = Job::new(&long_retention, 1, 1);
        for time in 0..200 {
            job.epoch(&[row((time % 5) as u8, time * 7, time)], false);
        }
        let mut tx = job.databases[0].begin().unwrap();
        assert!(groups(&job.databases[0], &mut tx) >= 200, "{kind:?}");
        job.restart(&Settings::new(kind, "close", 3).request());
        let out = job.epoch(&[row(1, 200 * 7, 200)], true).rows;
        assert!(
            out.iter()
                .all(|row| row[2].is_some_and(|end| end >= 199 * 7 - 3)),
            "{kind:?}: emitted windows are emitted again: {out:?}"
        );
        let mut tx = job.databases[0].begin().unwrap();
        let found = groups(&job.databases[0], &mut tx);
        assert!((1..10).contains(&found), "{kind:?}: {found}");
        let found = items(&job.databases[0], &mut tx);
        assert!((1..60).contains(&found), "{kind:?}: {found} items");
    }
}
