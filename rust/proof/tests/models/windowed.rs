//! Window and session stores against plain maps.

use crate::pair::{Pair, Place, Subject, folder, key, place};
use crate::window_model::{RETENTION, WindowModel};
use crate::window_step::{Step, step};
use holdfast_core::{
    Database, Durability, NO_TIMESTAMP, SessionQuery, StoreKind, Timestamp, Transaction, WindowPut,
    WindowedKey,
};
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;

const SIZE: i64 = 5;

/// The first and the last key of a scan; None is open.
type Keys<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

/// A row of a scan: key, start, end, value, timestamp.
type Row = (Vec<u8>, i64, i64, u8, i64);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Window,
    Timestamped,
    Duplicates,
    Session,
}

/// A store and how its database is opened.
struct Windowed {
    kind: Kind,
    place: Place,
}

/// The timestamp of a put, if the store has timestamps.
fn stamp(kind: Kind, start: i64, value: u8) -> i64 {
    if kind == Kind::Timestamped {
        start * 256 + i64::from(value)
    } else {
        NO_TIMESTAMP.0
    }
}

impl Subject for Windowed {
    type Model = WindowModel;

    fn open(&self, dir: &Path) -> Arc<Database> {
        let kind = match self.kind {
            Kind::Session => StoreKind::Session {
                retention: RETENTION,
            },
            kind => {
                let retain_duplicates = kind == Kind::Duplicates;
                let timestamped = kind == Kind::Timestamped;
                StoreKind::Window {
                    retention: RETENTION,
                    window_size: SIZE,
                    retain_duplicates,
                    timestamped,
                }
            }
        };
        self.place.open(dir, kind)
    }

    fn kept(&self, committed: &WindowModel) -> WindowModel {
        if self.place.durability().is_some() {
            committed.clone()
        } else {
            WindowModel::default()
        }
    }

    fn durability(&self) -> Option<Durability> {
        self.place.durability()
    }

    fn check(
        &self,
        db: &Database,
        view: &mut Transaction,
        model: &WindowModel,
    ) -> Result<(), TestCaseError> {
        let mut expected = self.expected(model, (None, None), i64::MIN, i64::MAX);
        prop_assert_eq!(
            &self.scan(db, view, (None, None), i64::MIN, i64::MAX, false),
            &expected
        );
        expected.reverse();
        prop_assert_eq!(
            self.scan(db, view, (None, None), i64::MIN, i64::MAX, true),
            expected
        );
        Ok(())
    }
}

impl Windowed {
    fn row(&self, (time, key, more): &(i64, Vec<u8>, i64), value: u8) -> Row {
        match self.kind {
            Kind::Session => (key.clone(), *more, *time, value, NO_TIMESTAMP.0),
            kind => (
                key.clone(),
                *time,
                time + SIZE,
                value,
                stamp(kind, *time, value),
            ),
        }
    }

    fn scan(
        &self,
        db: &Database,
        tx: &mut Transaction,
        (low, high): Keys<'_>,
        from: i64,
        to: i64,
        reverse: bool,
    ) -> Vec<Row> {
        let mut rows = Vec::new();
        // Stop after every row, which also tests resuming.
        if self.kind == Kind::Session {
            let (earliest_end, latest_start) = (Timestamp(from), Timestamp(to));
            let query = SessionQuery {
                key_from: low,
                key_to: high,
                earliest_end,
                latest_start,
                reverse,
            };
            let mut scan = db.session("s").unwrap().find_sessions(tx, query).unwrap();
            let mut visit = |session: WindowedKey<'_>, value: &[u8]| {
                rows.push((
                    session.key.to_vec(),
                    session.start.0,
                    session.end.0,
                    value[0],
                    NO_TIMESTAMP.0,
                ));
                false
            };
            while scan.for_each(&mut visit).unwrap() {}
        } else {
            let mut scan = db
                .window("s")
                .unwrap()
                .fetch_range(tx, low, high, Timestamp(from), Timestamp(to), reverse)
                .unwrap();
            let mut visit = |window: WindowedKey<'_>, found: holdfast_core::Stamped<'_>| {
                rows.push((
                    window.key.to_vec(),
                    window.start.0,
                    window.end.0,
                    found.value[0],
                    found.timestamp.0,
                ));
                false
            };
            while scan.for_each(&mut visit).unwrap() {}
        }
        rows
    }

    fn expected(&self, model: &WindowModel, (low, high): Keys<'_>, from: i64, to: i64) -> Vec<Row> {
        let in_keys =
            |key: &[u8]| low.is_none_or(|low| key >= low) && high.is_none_or(|high| key <= high);
        let in_time = |time: i64, more: i64| match self.kind {
            Kind::Session => time >= from && more <= to,
            _ => time >= from && time <= to,
        };
        let rows = model
            .visible()
            .filter(|((time, key, more), _)| in_keys(key) && in_time(*time, *more));
        rows.map(|(row, value)| self.row(row, *value)).collect()
    }
}

impl Pair<Windowed> {
    fn put(&mut self, n: u8, at: i64, length: i64, value: Option<u8>) {
        let key = key(n);
        let bytes = value.map(|value| [value]);
        let bytes = bytes.as_ref().map(|value| value.as_slice());
        let mut tx = self.db.transaction().unwrap();
        let more = match self.subject.kind {
            Kind::Session => {
                let session = WindowedKey {
                    key: &key,
                    start: Timestamp(at - length),
                    end: Timestamp(at),
                };
                self.db
                    .session("s")
                    .unwrap()
                    .put(&mut tx, session, bytes)
                    .unwrap();
                at - length
            }
            kind => {
                let timestamp = (kind == Kind::Timestamped)
                    .then(|| Timestamp(stamp(kind, at, value.unwrap_or(0))));
                let put = WindowPut {
                    key: &key,
                    value: bytes,
                    start: Timestamp(at),
                    timestamp,
                };
                self.db.window("s").unwrap().put(&mut tx, put).unwrap();
                if kind == Kind::Duplicates && value.is_none() {
                    return;
                }
                if kind == Kind::Duplicates && at >= self.open.horizon() {
                    self.open.sequence += 1;
                }
                if kind == Kind::Duplicates {
                    self.open.sequence
                } else {
                    0
                }
            }
        };
        self.open.put(at, key, more, value);
    }

    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Puts(puts) => {
                for (n, at, length, value) in puts {
                    self.put(n, at, length, value);
                }
            }
            Step::Scan {
                keys: (low, high),
                from,
                span,
                reverse,
            } => {
                let (low, high) = (low.map(key), high.map(key));
                let keys = (low.as_deref(), high.as_deref());
                let mut tx = self.db.transaction().unwrap();
                let found = self
                    .subject
                    .scan(&self.db, &mut tx, keys, from, from + span, reverse);
                let mut expected = self.subject.expected(&self.open, keys, from, from + span);
                if reverse {
                    expected.reverse();
                }
                prop_assert_eq!(found, expected);
            }
            Step::Find(asked) => {
                let keys: Vec<_> = asked.iter().map(|(n, _, _)| key(*n)).collect();
                let slices: Vec<_> = keys.iter().map(Vec::as_slice).collect();
                let from: Vec<_> = asked.iter().map(|(_, from, _)| Timestamp(*from)).collect();
                let to: Vec<_> = asked
                    .iter()
                    .map(|(_, from, span)| Timestamp(from + span))
                    .collect();
                let mut found = Vec::new();
                let mut tx = self.db.transaction().unwrap();
                if self.subject.kind == Kind::Session {
                    let mut each = |row: usize, session: WindowedKey<'_>, value: &[u8]| {
                        found.push((
                            row,
                            (
                                session.key.to_vec(),
                                session.start.0,
                                session.end.0,
                                value[0],
                                NO_TIMESTAMP.0,
                            ),
                        ));
                    };
                    self.db
                        .session("s")
                        .unwrap()
                        .find_batch(&mut tx, &slices, &from, &to, &mut each)
                        .unwrap();
                } else {
                    let mut each =
                        |row: usize, window: WindowedKey<'_>, value: holdfast_core::Stamped<'_>| {
                            found.push((
                                row,
                                (
                                    window.key.to_vec(),
                                    window.start.0,
                                    window.end.0,
                                    value.value[0],
                                    value.timestamp.0,
                                ),
                            ));
                        };
                    self.db
                        .window("s")
                        .unwrap()
                        .fetch_ranges(&mut tx, &slices, &from, &to, &mut each)
                        .unwrap();
                }
                let rows = |n: usize| {
                    self.subject.expected(
                        &self.open,
                        (Some(slices[n]), Some(slices[n])),
                        from[n].0,
                        to[n].0,
                    )
                };
                let expected: Vec<_> = (0..asked.len())
                    .flat_map(|n| rows(n).into_iter().map(move |row| (n, row)))
                    .collect();
                prop_assert_eq!(found, expected);
            }
            Step::Gets(asked) if self.subject.kind != Kind::Duplicates => {
                let keys: Vec<_> = asked.iter().map(|(n, _, _)| key(*n)).collect();
                let mut found = vec![None; asked.len()];
                let mut tx = self.db.transaction().unwrap();
                let mut expected = Vec::new();
                if self.subject.kind == Kind::Session {
                    let sessions: Vec<_> = (keys.iter().zip(&asked))
                        .map(|(key, (_, at, length))| WindowedKey {
                            key,
                            start: Timestamp(at - length),
                            end: Timestamp(*at),
                        })
                        .collect();
                    let store = self.db.session("s").unwrap();
                    store
                        .fetch_batch(&mut tx, &sessions, |n, value| {
                            found[n] = value.map(|value| value[0])
                        })
                        .unwrap();
                    for (session, found) in sessions.iter().zip(&found) {
                        let one = store
                            .fetch_session(&mut tx, *session, |value| value.map(|value| value[0]))
                            .unwrap();
                        prop_assert_eq!(&one, found);
                        expected.push(self.open.get(session.end.0, session.key, session.start.0));
                    }
                } else {
                    let slices: Vec<_> = keys.iter().map(Vec::as_slice).collect();
                    let starts: Vec<_> = asked.iter().map(|(_, at, _)| Timestamp(*at)).collect();
                    let store = self.db.window("s").unwrap();
                    store
                        .fetch_batch(&mut tx, &slices, &starts, |n, value| {
                            found[n] = value.map(|value| value.value[0])
                        })
                        .unwrap();
                    for ((key, start), found) in slices.iter().zip(&starts).zip(&found) {
                        let one = store
                            .fetch(&mut tx, key, *start, |value| {
                                value.map(|value| value.value[0])
                            })
                            .unwrap();
                        prop_assert_eq!(&one, found);
                        expected.push(self.open.get(start.0, key, 0));
                    }
                }
                prop_assert_eq!(found, expected);
            }
            Step::Gets(_) => {}
            Step::Event(event) => self.apply(event),
        }
        self.check_views()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 90, ..ProptestConfig::default() })]

    #[test]
    fn a_store_answers_as_the_model(
        steps in prop::collection::vec(step(), 1..40),
        kind in prop::sample::select(vec![Kind::Window, Kind::Timestamped, Kind::Duplicates,
            Kind::Session]),
        place in place(),
    ) {
        let mut pair = Pair::new(Windowed { kind, place }, folder(), WindowModel::default());
        for step in steps {
            pair.step(step)?;
        }
    }
}
