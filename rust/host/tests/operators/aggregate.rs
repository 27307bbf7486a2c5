//! Aggregation by windows of each kind against its definition, which remembers every row.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_core::{Database, SessionQuery, Step, Timestamp, Transaction};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{Done, Job, Out, Row, cut, float, list, row, rows, sorted};

const LENGTH: i64 = 8;
const SLIDE: i64 = 3;
const FUNCTIONS: [&str; 9] = [
    "count",
    "sum",
    "min",
    "max",
    "first",
    "last",
    "count_distinct",
    "collect_list",
    "collect_set",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Hopping,
    Sliding,
    Session,
}

#[derive(Debug, Clone, Copy)]
struct Settings {
    kind: Kind,
    emit: &'static str,
    grace: Option<i64>,
    last: bool,
}

impl Settings {
    fn new(kind: Kind, emit: &'static str, grace: i64) -> Self {
        Self {
            kind,
            emit,
            grace: Some(grace),
            last: false,
        }
    }

    fn request(self) -> Value {
        let window = match self.kind {
            Kind::Hopping => json!({"kind": "hopping", "length": LENGTH, "slide": SLIDE}),
            Kind::Sliding => json!({"kind": "sliding", "length": LENGTH}),
            Kind::Session => json!({"kind": "session", "gap": LENGTH}),
        };
        let mut aggregates = vec![
            json!({"name": "rows", "function": "count"}),
            json!({"name": "avg", "function": "avg", "column": 0}),
        ];
        aggregates
            .extend(FUNCTIONS.map(|name| json!({"name": name, "function": name, "column": 0})));
        json!({
            "kind": "aggregate", "keys": ["k"], "left": ["x"], "aggregates": aggregates,
            "window": window, "timed": true,
            "grace": self.grace, "emit": self.emit, "last": self.last,
        })
    }

    fn job(self, partitions: usize) -> Job {
        Job::new(&self.request(), 1, partitions)
    }

    /// The last end that is closed at a stream time.
    fn closed(self, stream_time: Option<i64>) -> Option<i64> {
        let grace = self.grace.or((self.emit == "close").then_some(0));
        grace.zip(stream_time).map(|(grace, now)| now - grace)
    }
}

/// A row of the result over these rows, by SQL's definitions; `end`: as the column says it.
fn answer(key: Option<u8>, start: i64, end: i64, members: &[Row]) -> Out {
    let mut members = members.to_vec();
    members.sort_by_key(|row| (row.time, row.number));
    let present: Vec<i64> = members.iter().filter_map(|row| row.number).collect();
    let distinct: BTreeSet<i64> = present.iter().copied().collect();
    let mean =
        (!present.is_empty()).then(|| present.iter().sum::<i64>() as f64 / present.len() as f64);
    vec![
        key.map(i64::from),
        Some(start),
        Some(end),
        Some(members.len() as i64),
        mean.map(float),
        Some(present.len() as i64),
        (!present.is_empty()).then(|| present.iter().sum()),
        present.iter().min().copied(),
        present.iter().max().copied(),
        members[0].number,
        members[members.len() - 1].number,
        Some(distinct.len() as i64),
        Some(list(present.iter().copied())),
        Some(list(distinct)),
    ]
}

/// The windows that rows of one key make, by start: those that hold rows, each with its rows.
fn windows(kind: Kind, rows: &[Row]) -> BTreeMap<i64, Vec<Row>> {
    let times = || rows.iter().filter_map(|row| row.time);
    let starts: BTreeSet<i64> = match kind {
        Kind::Hopping => (-100..100).map(|n| n * SLIDE).collect(),
        Kind::Sliding => times().flat_map(|time| [time - LENGTH, time + 1]).collect(),
        Kind::Session => times()
            .filter(|time| !times().any(|other| other < *time && other >= time - LENGTH))
            .collect(),
    };
    let mut found = BTreeMap::new();
    for (n, start) in starts.iter().enumerate() {
        let end = match kind {
            Kind::Hopping => start + LENGTH,
            Kind::Sliding => start + LENGTH + 1,
            Kind::Session => starts.iter().nth(n + 1).copied().unwrap_or(i64::MAX),
        };
        let members: Vec<Row> = rows
            .iter()
            .filter(|row| row.time.is_some_and(|time| (*start..end).contains(&time)))
            .copied()
            .collect();
        if !members.is_empty() {
            found.insert(*start, members);
        }
    }
    found
}

/// The first moment behind a window.
fn behind(kind: Kind, start: i64, members: &[Row]) -> i64 {
    match kind {
        Kind::Hopping => start + LENGTH,
        Kind::Sliding => start + LENGTH + 1,
        Kind::Session => members.iter().filter_map(|row| row.time).max().unwrap() + LENGTH + 1,
    }
}

fn out(kind: Kind, key: Option<u8>, start: i64, members: &[Row]) -> Out {
    let end = behind(kind, start, members) - i64::from(kind != Kind::Hopping);
    answer(key, start, end, members)
}

/// The aggregation of static rows.
fn of_static(kind: Kind, rows: &[Row]) -> Vec<Out> {
    let keys: BTreeSet<Option<u8>> = rows.iter().map(|row| row.key).collect();
    let of_key = |key: Option<u8>| {
        rows.iter()
            .filter(move |row| row.key == key && row.time.is_some())
            .copied()
            .collect::<Vec<_>>()
    };
    let all = keys
        .into_iter()
        .map(|key| (key, windows(kind, &of_key(key))));
    sorted(all.flat_map(|(key, windows)| {
        windows
            .into_iter()
            .map(move |(start, members)| out(kind, key, start, &members))
    }))
}

/// One partition's rows: those that were taken, key by key. What has closed is set apart, and never
/// looked at again.
#[derive(Default)]
struct Model {
    time: Option<i64>,
    /// The last end that is closed, whatever the grace is now.
    closed: Option<i64>,
    taken: BTreeMap<Option<u8>, Vec<Row>>,
    late: u64,
}

impl Model {
    fn epoch(&mut self, settings: Settings, given: &[Row]) -> Vec<Out> {
        // What was said already closes at once when the grace becomes shorter; what was not is said
        // first.
        let before = if settings.emit == "update" {
            self.closed.max(settings.closed(self.time))
        } else {
            self.closed
        };
        self.time = self.time.max(given.iter().filter_map(|row| row.time).max());
        self.closed = before.max(settings.closed(self.time));
        let keys: BTreeSet<Option<u8>> = self
            .taken
            .keys()
            .copied()
            .chain(given.iter().map(|row| row.key))
            .collect();
        let mut result = Vec::new();
        for key in keys {
            let new: Vec<Row> = given
                .iter()
                .filter(|row| row.key == key && row.time.is_some())
                .copied()
                .collect();
            result.extend(self.key(settings, before, key, &new));
        }
        result
    }

    fn key(
        &mut self,
        settings: Settings,
        before: Option<i64>,
        key: Option<u8>,
        new: &[Row],
    ) -> Vec<Out> {
        let kind = settings.kind;
        let old = self.taken.remove(&key).unwrap_or_default();
        let was_closed =
            |(start, members): &(&i64, &Vec<Row>)| Some(behind(kind, **start, members)) <= before;
        // A closed session takes part in nothing.
        let open_rows: Vec<Row> = match kind {
            Kind::Session => windows(kind, &old)
                .iter()
                .filter(|window| !was_closed(window))
                .flat_map(|(_, members)| members.clone())
                .collect(),
            _ => old.clone(),
        };
        let mut all: Vec<Row> = [open_rows.clone(), new.to_vec()].concat();
        // Rows of which every window was closed are late.
        let whole = windows(kind, &all);
        let is_late = |row: &Row| {
            !whole
                .iter()
                .any(|window| window.1.contains(row) && !was_closed(&window))
        };
        let late = match kind {
            // Of the windows that hold the row, the last one to close begins with it.
            Kind::Sliding => new
                .iter()
                .filter(|row| Some(row.time.unwrap() + LENGTH + 1) <= before)
                .copied()
                .collect(),
            _ => new
                .iter()
                .filter(|row| is_late(row))
                .copied()
                .collect::<Vec<_>>(),
        };
        self.late += late.len() as u64;
        all = open_rows.clone();
        all.extend(new.iter().filter(|row| !late.contains(row)));
        let (earlier, later) = (windows(kind, &open_rows), windows(kind, &all));
        let is_out = |start: i64, members: &Vec<Row>| {
            let end = Some(behind(kind, start, members));
            let is_open = end > before;
            match settings.emit {
                "update" => {
                    is_open
                        && earlier
                            .get(&start)
                            .is_none_or(|members| members.len() != later[&start].len())
                }
                _ => is_open && end <= self.closed,
            }
        };
        let result = later
            .iter()
            .filter(|(start, members)| is_out(**start, members))
            .map(|(start, members)| out(kind, key, *start, members));
        let result = result.collect();
        self.taken.insert(key, all);
        result
    }
}

fn kinds() -> impl Strategy<Value = Kind> + Clone {
    prop_oneof![
        Just(Kind::Hopping),
        Just(Kind::Sliding),
        Just(Kind::Session)
    ]
}

/// Sums of floats, and with them averages, may be added up in another order.
fn check(found: Vec<Out>, expected: Vec<Out>) -> Result<(), TestCaseError> {
    prop_assert_eq!(sorted(found), sorted(expected));
    Ok(())
}

#[test]
fn a_row_between_two_sessions_makes_them_one() {
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
    // The session that is swallowed is not mentioned: the one that swallowed it begins no later and
    // ends no earlier.
    assert_eq!(starts(job.epoch(&[row(1, 5, 4)], false)), [(0, 18, 3)]);
    // A row at the very end of a session would be of it.
    assert_eq!(starts(job.epoch(&[row(1, 19, 5)], true)), [(19, 27, 1)]);
    assert_eq!(starts(job.epoch(&[row(1, 18, 6)], false)), [(0, 27, 5)]);
}

#[test]
fn a_session_comes_out_once_when_it_closes_and_is_never_opened_again() {
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
    // 0 lies in the closed session; with 8 it makes one that is open.
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
    // By start: the window that ends with each row, and the one that begins behind it.
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
fn windows_that_were_open_come_out_once_the_grace_is_shorter() {
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
fn what_has_closed_stays_closed_when_grace_or_retention_become_longer() {
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

/// How many groups a task has.
fn groups(db: &Database, tx: &mut Transaction) -> u64 {
    let mut kept = 0;
    let mut count = |_, _| {
        kept += 1;
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
    kept
}

/// How many single values a task has.
fn items(db: &Database, tx: &mut Transaction) -> u64 {
    let mut kept = 0;
    let mut scan = db
        .key_value("items")
        .unwrap()
        .range(tx, None, None, false)
        .unwrap();
    scan.for_each(&mut |_, _| {
        kept += 1;
        Step::Next
    })
    .unwrap();
    kept
}

#[test]
fn the_state_forgets_windows_with_all_that_is_kept_of_them() {
    for kind in [Kind::Hopping, Kind::Sliding, Kind::Session] {
        for emit in ["update", "close"] {
            let job = Settings::new(kind, emit, 3).job(1);
            for time in 0..200 {
                job.epoch(&[row((time % 5) as u8, time * 7, time)], false);
            }
            let mut tx = job.databases[0].begin().unwrap();
            let kept = items(&job.databases[0], &mut tx);
            assert!((1..50).contains(&kept), "{kind:?} {emit}: {kept}");
            if emit == "close" {
                assert!(groups(&job.databases[0], &mut tx) < 10, "{kind:?}");
            }
        }
    }
}

#[test]
fn what_is_kept_of_windows_that_a_shorter_grace_closes_is_forgotten() {
    for kind in [Kind::Hopping, Kind::Sliding, Kind::Session] {
        let mut job = Settings {
            grace: None,
            ..Settings::new(kind, "update", 0)
        }
        .job(1);
        for time in 0..200 {
            job.epoch(&[row((time % 5) as u8, time * 7, time)], false);
        }
        // One that began long ago and is open.
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
        let kept = items(&job.databases[0], &mut tx);
        if kind == Kind::Session {
            let members: Vec<Row> = (0..=200).map(|time| row(9, time * 7, time)).collect();
            assert_eq!(out, [self::out(kind, Some(9), 0, &members)]);
            assert!((202 * 3..202 * 3 + 50).contains(&kept), "{kept}");
        } else {
            assert!((1..100).contains(&kept), "{kind:?}: {kept}");
        }
    }
}

#[test]
fn a_session_that_begins_where_one_was_closed_has_nothing_of_it() {
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
fn windows_that_have_come_out_and_were_kept_are_forgotten_once_they_come_out_as_they_close() {
    for kind in [Kind::Hopping, Kind::Sliding, Kind::Session] {
        let mut kept_longer = Settings::new(kind, "update", 3).request();
        kept_longer["retention"] = json!(100_000);
        let mut job = Job::new(&kept_longer, 1, 1);
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
            "{kind:?}: what has come out comes out again: {out:?}"
        );
        let mut tx = job.databases[0].begin().unwrap();
        let kept = groups(&job.databases[0], &mut tx);
        assert!((1..10).contains(&kept), "{kind:?}: {kept}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None,
        ..ProptestConfig::default() })]

    #[test]
    fn rows_however_late_and_cut_give_what_the_definition_gives(
        epochs in rows(Just(true), 1, 50).prop_flat_map(|rows| cut(rows, 40)),
        partitions in 1..4_usize, kind in kinds(),
        emit in prop::sample::select(vec!["update", "close"]), grace in prop::option::of(0..12_i64),
    ) {
        let settings = Settings { kind, emit, grace, last: false };
        let job = settings.job(partitions);
        let mut models: Vec<Model> = (0..partitions).map(|_| Model::default()).collect();
        for (rows, replay) in &epochs {
            let ours = |partition: usize| rows.iter()
                .filter(|row| job.partition(row.key) == partition).copied().collect::<Vec<_>>();
            let expected = models.iter_mut().enumerate()
                .flat_map(|(partition, model)| model.epoch(settings, &ours(partition)));
            check(job.epoch(rows, *replay).rows, expected.collect())?;
        }
    }

    #[test]
    fn a_changed_grace_closes_what_is_open_once_and_opens_nothing(
        epochs in rows(Just(true), 1, 50).prop_flat_map(|rows| cut(rows, 40)),
        partitions in 1..3_usize, kind in kinds(),
        changes in prop::collection::vec(prop::option::weighted(0.3,
            (any::<bool>(), prop::option::of(0..30_i64))), 50),
    ) {
        let mut settings = Settings::new(kind, "close", 12);
        let mut job = settings.job(partitions);
        let mut models: Vec<Model> = (0..partitions).map(|_| Model::default()).collect();
        for ((rows, replay), change) in epochs.iter().zip(changes) {
            if let Some((closes, grace)) = change {
                settings = Settings { emit: if closes { "close" } else { "update" }, grace,
                    ..settings };
                job.restart(&settings.request());
            }
            let ours = |partition: usize| rows.iter()
                .filter(|row| job.partition(row.key) == partition).copied().collect::<Vec<_>>();
            let expected = models.iter_mut().enumerate()
                .flat_map(|(partition, model)| model.epoch(settings, &ours(partition)));
            check(job.epoch(rows, *replay).rows, expected.collect())?;
        }
    }

    #[test]
    fn rows_within_their_grace_give_what_a_static_frame_gives(
        (all, epochs) in rows(Just(true), 1, 50)
            .prop_flat_map(|rows| (Just(rows.clone()), cut(rows, 10))),
        partitions in 1..4_usize, kind in kinds(),
    ) {
        let of_static = of_static(kind, &all);
        let whole = Settings { kind, emit: "close", grace: None, last: true }.job(1);
        check(whole.epoch(&all, false).rows, of_static.clone())?;
        let job = Settings::new(kind, "close", 10).job(partitions);
        let mut found: Vec<Out> = epochs.iter()
            .flat_map(|(rows, replay)| job.epoch(rows, *replay).rows).collect();
        let ends: Vec<Row> = (100..100 + partitions as u8).map(|key| row(key, 10_000, 0)).collect();
        found.extend(job.epoch(&ends, false).rows);
        check(found, of_static.clone())?;
        let job = Settings::new(kind, "update", 10).job(partitions);
        let mut latest: BTreeMap<(Option<i64>, Option<i64>), Out> = BTreeMap::new();
        for (rows, replay) in &epochs {
            for row in job.epoch(rows, *replay).rows {
                if kind == Kind::Session {
                    latest.retain(|(key, start),
                        _| *key != row[0] || *start < row[1] || *start >= row[2]);
                }
                latest.insert((row[0], row[1]), row);
            }
        }
        check(latest.into_values().collect(), of_static)?;
    }
}
