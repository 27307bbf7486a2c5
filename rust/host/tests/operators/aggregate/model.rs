//! The definition of an aggregation by windows of each kind: a model that has every row.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::support::{Job, Out, Row, float, list, sorted};

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

/// The average's place in a row of the result. It is the only function that needs the rows in
/// order.
pub const AVERAGE: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Hopping,
    Sliding,
    Session,
}

#[derive(Debug, Clone, Copy)]
pub struct Settings {
    pub kind: Kind,
    pub emit: &'static str,
    pub grace: Option<i64>,
    pub last: bool,
}

impl Settings {
    pub fn new(kind: Kind, emit: &'static str, grace: i64) -> Self {
        Self {
            kind,
            emit,
            grace: Some(grace),
            last: false,
        }
    }

    pub fn request(self) -> Value {
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

    pub fn job(self, partitions: usize) -> Job {
        Job::new(&self.request(), 1, partitions)
    }

    /// At a stream time, windows that end at or before the returned time are closed.
    fn closed_until(self, stream_time: Option<i64>) -> Option<i64> {
        let grace = self.grace.or((self.emit == "close").then_some(0));
        grace.zip(stream_time).map(|(grace, now)| now - grace)
    }
}

/// A row of the result over these rows, by SQL's definitions, with this start and end.
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

/// The windows of one key that hold rows, by start, each with its rows.
pub fn windows(kind: Kind, rows: &[Row]) -> BTreeMap<i64, Vec<Row>> {
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

/// The first moment after a window.
pub fn after(kind: Kind, start: i64, members: &[Row]) -> i64 {
    match kind {
        Kind::Hopping => start + LENGTH,
        Kind::Sliding => start + LENGTH + 1,
        Kind::Session => members.iter().filter_map(|row| row.time).max().unwrap() + LENGTH + 1,
    }
}

pub fn out(kind: Kind, key: Option<u8>, start: i64, members: &[Row]) -> Out {
    let end = after(kind, start, members) - i64::from(kind != Kind::Hopping);
    answer(key, start, end, members)
}

/// The aggregation of static rows.
pub fn of_static(kind: Kind, rows: &[Row]) -> Vec<Out> {
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

/// One partition's rows: those that were in time, by key. Closed windows never change again.
#[derive(Default)]
pub struct Model {
    time: Option<i64>,
    /// Windows that end at or before this time are closed, under the current grace or an earlier
    /// one.
    closed: Option<i64>,
    taken: BTreeMap<Option<u8>, Vec<Row>>,
    late: u64,
}

impl Model {
    pub fn epoch(&mut self, settings: Settings, given: &[Row]) -> Vec<Out> {
        // When the grace becomes shorter, windows that have been emitted close at once; the others
        // are emitted first.
        let before = if settings.emit == "update" {
            self.closed.max(settings.closed_until(self.time))
        } else {
            self.closed
        };
        self.time = self.time.max(given.iter().filter_map(|row| row.time).max());
        self.closed = before.max(settings.closed_until(self.time));
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
            |(start, members): &(&i64, &Vec<Row>)| Some(after(kind, **start, members)) <= before;
        // A closed session is never merged.
        let open_rows: Vec<Row> = match kind {
            Kind::Session => windows(kind, &old)
                .iter()
                .filter(|window| !was_closed(window))
                .flat_map(|(_, members)| members.clone())
                .collect(),
            _ => old.clone(),
        };
        let mut all: Vec<Row> = [open_rows.clone(), new.to_vec()].concat();
        // A row is late if all its windows were closed.
        let whole = windows(kind, &all);
        let is_late = |row: &Row| {
            !whole
                .iter()
                .any(|window| window.1.contains(row) && !was_closed(&window))
        };
        let late = match kind {
            // Of the windows that contain a row, the last to close begins at the row's time.
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
            let end = Some(after(kind, start, members));
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
