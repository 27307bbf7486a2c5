//! The versioned store against its model, in files and in memory.

use crate::pair::{Event, Pair, Place, Subject, event, folder, key, place};
use holdfast_core::{
    Applied, Database, Durability, OffsetChange, Op, StoreKind, Timestamp, Transaction,
};
use holdfast_proof::subject::{History, VersionRow as Row};
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;

const RETENTION: i64 = 40;

#[derive(Clone, Debug)]
enum Step {
    Batch(Vec<(u8, i64, Option<Option<u8>>)>),
    Versions {
        key: u8,
        from: i64,
        span: i64,
        ascending: bool,
    },
    Range {
        from: i64,
        span: i64,
    },
    Scan(Option<i64>),
    Event(Event),
}

fn step() -> impl Strategy<Value = Step> {
    let op = (
        0u8..6,
        -20i64..120,
        prop::option::of(prop::option::of(any::<u8>())),
    );
    prop_oneof![
        8 => prop::collection::vec(op, 1..20).prop_map(Step::Batch),
        2 => (0u8..6, -20i64..120, 0i64..40, any::<bool>())
            .prop_map(|(key, from, span, ascending)| Step::Versions { key, from, span, ascending }),
        1 => (-20i64..120, 0i64..40).prop_map(|(from, span)| Step::Range { from, span }),
        2 => prop::option::of(-20i64..120).prop_map(Step::Scan),
        9 => event().prop_map(Step::Event),
    ]
}

fn open(dir: &Path, place: Place) -> Arc<Database> {
    place.open(
        dir,
        StoreKind::Versioned {
            history_retention: RETENTION,
            segment_interval: 10,
        },
    )
}

impl Subject for Place {
    type Model = History;

    fn open(&self, dir: &Path) -> Arc<Database> {
        open(dir, *self)
    }

    fn kept(&self, committed: &History) -> History {
        if self.durability().is_some() {
            committed.clone()
        } else {
            History::new(RETENTION)
        }
    }

    fn durability(&self) -> Option<Durability> {
        (*self).durability()
    }

    fn check(
        &self,
        db: &Database,
        view: &mut Transaction,
        model: &History,
    ) -> Result<(), TestCaseError> {
        let store = db.versioned("s").unwrap();
        let mut scan = store
            .versions_range(view, None, None, Timestamp(-100), Timestamp(1_000))
            .unwrap();
        prop_assert_eq!(rows(&mut scan), all_versions(model, |_| true, -100, 1_000));
        prop_assert_eq!(
            rows(&mut store.scan(view, None).unwrap()),
            as_of(model, i64::MAX)
        );
        let at = model.stream_time().unwrap_or(0) - RETENTION / 2;
        for n in 0..6 {
            let found = store
                .get_as_of(view, &key(n), Timestamp(at), |v| v.map(owned))
                .unwrap();
            prop_assert_eq!(found, model.get(&key(n), at));
        }
        Ok(())
    }
}

impl Pair<Place> {
    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        let store = self.db.versioned("s").unwrap();
        match step {
            Step::Batch(rows) => {
                let keys: Vec<_> = rows.iter().map(|(n, _, _)| key(*n)).collect();
                let values: Vec<_> = rows
                    .iter()
                    .map(|(_, _, put)| put.flatten().map(|v| vec![v]))
                    .collect();
                let ops: Vec<_> = rows
                    .iter()
                    .enumerate()
                    .map(|(n, (_, at, put))| match put {
                        Some(_) => Op::Put {
                            key: &keys[n],
                            value: values[n].as_deref(),
                            timestamp: Timestamp(*at),
                        },
                        None => Op::Get {
                            key: &keys[n],
                            as_of: Timestamp(*at),
                        },
                    })
                    .collect();
                let mut results = Vec::new();
                let mut tx = self.db.transaction().unwrap();
                store
                    .apply_batch(&mut tx, &ops, true, &mut |_, applied| {
                        results.push(match applied {
                            Applied::Put(put) => {
                                (Some((put.accepted, put.valid_to.map(|t| t.0))), None)
                            }
                            Applied::Get(found) => (None, found.map(owned)),
                            Applied::Expired => (None, None),
                        });
                    })
                    .unwrap();
                for (n, (_, at, put)) in rows.iter().enumerate() {
                    let expected = match put {
                        Some(value) => (
                            Some(self.open.put(&keys[n], value.map(|v| vec![v]), *at)),
                            None,
                        ),
                        None => (None, self.open.get(&keys[n], *at)),
                    };
                    prop_assert_eq!(&results[n], &expected, "row {} of {:?}", n, rows);
                }
                prop_assert_eq!(store.stream_time(&tx).map(|t| t.0), self.open.stream_time());
            }
            Step::Versions {
                key: n,
                from,
                span,
                ascending,
            } => {
                let mut tx = self.db.transaction().unwrap();
                let mut scan = store
                    .versions(
                        &mut tx,
                        &key(n),
                        Timestamp(from),
                        Timestamp(from + span),
                        ascending,
                    )
                    .unwrap();
                let mut expected = self.open.versions(&key(n), from, from + span);
                if !ascending {
                    expected.reverse();
                }
                prop_assert_eq!(
                    rows(&mut scan),
                    expected
                        .into_iter()
                        .map(|row| (key(n), row))
                        .collect::<Vec<_>>()
                );
            }
            Step::Range { from, span } => {
                let mut tx = self.db.transaction().unwrap();
                let (low, high) = (key(1), key(4));
                let mut scan = store
                    .versions_range(
                        &mut tx,
                        Some(&low),
                        Some(&high),
                        Timestamp(from),
                        Timestamp(from + span),
                    )
                    .unwrap();
                let inside = |key: &[u8]| (low.as_slice()..=high.as_slice()).contains(&key);
                prop_assert_eq!(
                    rows(&mut scan),
                    all_versions(&self.open, inside, from, from + span)
                );
            }
            Step::Scan(at) => {
                let mut tx = self.db.transaction().unwrap();
                let mut scan = store.scan(&mut tx, at.map(Timestamp)).unwrap();
                let at = at.unwrap_or(i64::MAX);
                prop_assert_eq!(rows(&mut scan), as_of(&self.open, at));
            }
            Step::Event(event) => self.apply(event),
        }
        self.check_views()
    }
}

fn owned(version: holdfast_core::Version<'_>) -> Row {
    (
        version.value.to_vec(),
        version.timestamp.0,
        version.valid_to.map(|t| t.0),
    )
}

/// All versions of some keys between two times.
fn all_versions(
    model: &History,
    inside: impl Fn(&[u8]) -> bool,
    from: i64,
    to: i64,
) -> Vec<(Vec<u8>, Row)> {
    let keys = model.keys().filter(|key| inside(key));
    keys.flat_map(|key| {
        model
            .versions(key, from, to)
            .into_iter()
            .map(move |row| (key.to_vec(), row))
    })
    .collect()
}

/// The table as of a time.
fn as_of(model: &History, at: i64) -> Vec<(Vec<u8>, Row)> {
    model
        .keys()
        .filter_map(|key| model.get(key, at).map(|row| (key.to_vec(), row)))
        .collect()
}

fn rows(scan: &mut holdfast_core::VersionScan) -> Vec<(Vec<u8>, Row)> {
    let mut rows = Vec::new();
    // Stop after every row, which also tests resuming.
    while scan
        .for_each(&mut |key, v| {
            rows.push((key.to_vec(), owned(v)));
            false
        })
        .unwrap()
    {}
    rows
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 90, ..ProptestConfig::default() })]

    #[test]
    fn the_store_answers_as_the_model(steps in prop::collection::vec(step(), 1..40),
        place in place()) {
        let mut pair = Pair::new(place, folder(), History::new(RETENTION));
        for step in steps {
            pair.step(step)?;
        }
    }
}

#[test]
fn a_view_begun_right_after_open_keeps_its_history_through_a_compaction() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path(), Place::Files(Durability::Sync, -1));
    let store = db.versioned("s").unwrap();
    for at in [60, 80, 95] {
        store
            .put(
                &mut db.transaction().unwrap(),
                b"k",
                Some(b"v"),
                Timestamp(at),
            )
            .unwrap();
    }
    db.commit(OffsetChange::Keep).unwrap();
    db.close().unwrap();
    let db = open(dir.path(), Place::Files(Durability::Sync, -1));
    let store = db.versioned("s").unwrap();
    let mut view = db.begin().unwrap();
    store
        .put(
            &mut db.transaction().unwrap(),
            b"k",
            Some(b"v"),
            Timestamp(1_000),
        )
        .unwrap();
    db.commit(OffsetChange::Keep).unwrap();
    db.flush(true).unwrap();
    db.compact("s").unwrap();
    let found = store
        .get_as_of(&mut view, b"k", Timestamp(81), |version| {
            version.map(|v| v.timestamp.0)
        })
        .unwrap();
    assert_eq!(found, Some(80));
}
