//! The timestamped key-value store against a map, in memory, and in files that have the rows of a
//! store without timestamps: all rows are readable, and migrate when they are written.

use crate::pair::{Event, Pair, Place, Subject, event, folder, key, place};
use holdfast_core::{
    Database, Durability, NO_TIMESTAMP, OffsetChange, Stamped, StoreKind, Timestamp,
    TimestampedKeyValueStore, Transaction,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

type Model = BTreeMap<Vec<u8>, (u8, i64)>;

#[derive(Clone, Debug)]
enum Step {
    Put(u8, Option<u8>, i64),
    Get(Vec<u8>),
    Range(Option<u8>, Option<u8>, bool),
    DeleteRange(Option<u8>, Option<u8>),
    Event(Event),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u8..6, prop::option::of(any::<u8>()), any::<i64>())
            .prop_map(|(key, value, at)| Step::Put(key, value, at)),
        2 => prop::collection::vec(0u8..6, 0..6).prop_map(Step::Get),
        2 => (prop::option::of(0u8..6), prop::option::of(0u8..6), any::<bool>())
            .prop_map(|(a, b, r)| Step::Range(a, b, r)),
        1 => (prop::option::of(0u8..6), prop::option::of(0u8..6))
            .prop_map(|(a, b)| Step::DeleteRange(a, b)),
        6 => event().prop_map(Step::Event),
    ]
}

struct Timestamped(Place);

impl Subject for Timestamped {
    type Model = Model;

    fn open(&self, dir: &Path) -> Arc<Database> {
        self.0.open(dir, StoreKind::TimestampedKeyValue)
    }

    fn kept(&self, committed: &Model) -> Model {
        if self.0.durability().is_some() {
            committed.clone()
        } else {
            Model::new()
        }
    }

    fn durability(&self) -> Option<Durability> {
        self.0.durability()
    }

    fn check(
        &self,
        db: &Database,
        view: &mut Transaction,
        model: &Model,
    ) -> Result<(), TestCaseError> {
        let store = db.timestamped_key_value("s").unwrap();
        prop_assert_eq!(
            rows(&store, view, None, None, false),
            expected(model, None, None, false)
        );
        Ok(())
    }
}

type Row = (Vec<u8>, (u8, i64));

/// Scans with a stop after every row, which also tests resuming.
fn rows(
    store: &TimestampedKeyValueStore,
    tx: &mut Transaction,
    low: Option<&[u8]>,
    high: Option<&[u8]>,
    reverse: bool,
) -> Vec<Row> {
    let mut scan = store.range(tx, low, high, reverse).unwrap();
    let mut found = Vec::new();
    let mut visit = |key: &[u8], row: Stamped<'_>| {
        found.push((key.to_vec(), (row.value[0], row.timestamp.0)));
        false
    };
    while scan.for_each(&mut visit).unwrap() {}
    found
}

fn inside(key: &[u8], low: Option<&[u8]>, high: Option<&[u8]>) -> bool {
    low.is_none_or(|low| key >= low) && high.is_none_or(|high| key <= high)
}

fn expected(model: &Model, low: Option<&[u8]>, high: Option<&[u8]>, reverse: bool) -> Vec<Row> {
    let mut rows: Vec<_> = model
        .clone()
        .into_iter()
        .filter(|(key, _)| inside(key, low, high))
        .collect();
    if reverse {
        rows.reverse();
    }
    rows
}

impl Pair<Timestamped> {
    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        let store = self.db.timestamped_key_value("s").unwrap();
        match step {
            Step::Put(n, value, at) => {
                let bytes = value.map(|value| [value]);
                let bytes = bytes.as_ref().map(|value| value.as_slice());
                store
                    .put(
                        &mut self.db.transaction().unwrap(),
                        &key(n),
                        bytes,
                        Timestamp(at),
                    )
                    .unwrap();
                match value {
                    Some(value) => self.open.insert(key(n), (value, at)),
                    None => self.open.remove(&key(n)),
                };
            }
            Step::Get(asked) => {
                let keys: Vec<_> = asked.into_iter().map(key).collect();
                let slices: Vec<_> = keys.iter().map(Vec::as_slice).collect();
                let mut tx = self.db.transaction().unwrap();
                let mut found = vec![None; keys.len()];
                store
                    .get_batch(&mut tx, &slices, |n, row| {
                        found[n] = row.map(|row| (row.value[0], row.timestamp.0))
                    })
                    .unwrap();
                for (key, found) in slices.iter().zip(found) {
                    prop_assert_eq!(found, self.open.get(*key).copied());
                    let one = store
                        .get(&mut tx, key, |row| {
                            row.map(|row| (row.value[0], row.timestamp.0))
                        })
                        .unwrap();
                    prop_assert_eq!(one, found);
                }
            }
            Step::Range(low, high, reverse) => {
                let (low, high) = (low.map(key), high.map(key));
                let (low, high) = (low.as_deref(), high.as_deref());
                let found = rows(
                    &store,
                    &mut self.db.transaction().unwrap(),
                    low,
                    high,
                    reverse,
                );
                prop_assert_eq!(found, expected(&self.open, low, high, reverse));
            }
            Step::DeleteRange(low, high) => {
                let (low, high) = (low.map(key), high.map(key));
                let (low, high) = (low.as_deref(), high.as_deref());
                store
                    .delete_range(&mut self.db.transaction().unwrap(), low, high)
                    .unwrap();
                self.open.retain(|key, _| !inside(key, low, high));
            }
            Step::Event(event) => self.apply(event),
        }
        self.check_views()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn a_timestamped_store_answers_as_the_model(
        plain in prop::collection::vec((0u8..6, any::<u8>()), 0..6),
        steps in prop::collection::vec(step(), 1..30),
        place in place(),
    ) {
        let (dir, mut model) = (folder(), Model::new());
        if place.durability().is_some() {
            let before = place.open(dir.path(), StoreKind::KeyValue);
            for (n, value) in plain {
                before.key_value("s").unwrap()
                    .put(&mut before.transaction().unwrap(), &key(n), Some(&[value])).unwrap();
                model.insert(key(n), (value, NO_TIMESTAMP.0));
            }
            before.commit(OffsetChange::Keep).unwrap();
            before.close().unwrap();
        }
        let mut pair = Pair::new(Timestamped(place), dir, model);
        for step in steps {
            pair.step(step)?;
        }
    }
}
