//! Key-value stores. The model is a map.

use crate::step_error::StepResult;
use crate::subject::contract::{OpenTransaction, Subject, same};
use crate::subject::draw::{key, range, remove_range, value};
use fastrand::Rng;
use holdfast_core::{KeyValueStore, Scan, Step, StoreKind, StoreSpec};
use std::collections::BTreeMap;
use std::ops::Bound;

const KEYS: u64 = 600;

type Row = (Vec<u8>, Vec<u8>);

#[derive(Clone, Default)]
pub(super) struct KeyValue {
    name: &'static str,
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
}

fn rows(mut scan: Scan) -> holdfast_core::Result<Vec<Row>> {
    let mut rows = Vec::new();
    scan.for_each(&mut |key, value| {
        rows.push((key.to_vec(), value.to_vec()));
        Step::Next
    })?;
    Ok(rows)
}

impl KeyValue {
    pub(super) fn new(name: &'static str) -> Self {
        Self {
            name,
            ..Self::default()
        }
    }

    fn store(&self, open: &OpenTransaction<'_>) -> holdfast_core::Result<KeyValueStore> {
        open.db.key_value(self.name)
    }
}

impl Subject for KeyValue {
    fn spec(&self) -> StoreSpec {
        StoreSpec::new(self.name, StoreKind::KeyValue)
    }

    fn write(
        &mut self,
        rng: &mut Rng,
        n: u64,
        open: Option<&mut OpenTransaction<'_>>,
    ) -> StepResult {
        // Half of the writes use a tenth of the keys.
        let key = key(if rng.bool() {
            rng.u64(..KEYS / 10)
        } else {
            rng.u64(..KEYS)
        });
        let new = value(rng, n);
        match rng.u8(..10) {
            0 => {
                if let Some(open) = open {
                    let found = self.store(open)?.delete(open.tx, &key)?;
                    same(
                        || format!("delete of {key:?}"),
                        &found.as_ref(),
                        &self.rows.get(&key),
                    )?;
                }
                self.rows.remove(&key);
            }
            1 => {
                if let Some(open) = open {
                    let found = self.store(open)?.put_if_absent(open.tx, &key, Some(&new))?;
                    same(
                        || format!("put_if_absent of {key:?}"),
                        &found.as_ref(),
                        &self.rows.get(&key),
                    )?;
                }
                self.rows.entry(key).or_insert(new);
            }
            2 => {
                if let Some(open) = open {
                    self.store(open)?.put(open.tx, &key, None)?;
                }
                self.rows.remove(&key);
            }
            3 => {
                let (from, to) = range(rng, &key);
                if let Some(open) = open {
                    self.store(open)?
                        .delete_range(open.tx, from.as_deref(), to.as_deref())?;
                }
                remove_range(&mut self.rows, &from, &to);
            }
            _ => {
                if let Some(open) = open {
                    self.store(open)?.put(open.tx, &key, Some(&new))?;
                }
                self.rows.insert(key, new);
            }
        }
        Ok(())
    }

    fn read(&self, rng: &mut Rng, open: &mut OpenTransaction<'_>) -> StepResult {
        let store = self.store(open)?;
        let (a, b) = (key(rng.u64(..KEYS)), key(rng.u64(..KEYS)));
        match rng.u8(..4) {
            0 => {
                let (from, to) = if a <= b { (a, b) } else { (b, a) };
                let reverse = rng.bool();
                let found = rows(store.range(open.tx, Some(&from), Some(&to), reverse)?)?;
                let bounds = (
                    Bound::Included(from.as_slice()),
                    Bound::Included(to.as_slice()),
                );
                let mut expected: Vec<Row> = self
                    .rows
                    .range::<[u8], _>(bounds)
                    .map(|(k, v)| (k.clone(), v.clone()))
                    .collect();
                if reverse {
                    expected.reverse();
                }
                same(
                    || format!("range {from:?} to {to:?}, reverse {reverse}"),
                    &found,
                    &expected,
                )
            }
            1 => {
                let found = rows(store.prefix_scan(open.tx, &a, None, false)?)?;
                let expected = self
                    .rows
                    .iter()
                    .filter(|(k, _)| k.starts_with(&a))
                    .map(|(k, v)| (k.clone(), v.clone()))
                    .collect();
                same(|| format!("prefix {a:?}"), &found, &expected)
            }
            _ => {
                let keys: Vec<_> = std::iter::repeat_with(|| key(rng.u64(..KEYS)))
                    .take(8)
                    .collect();
                let slices: Vec<_> = keys.iter().map(Vec::as_slice).collect();
                let mut found = vec![None; keys.len()];
                store.get_batch(open.tx, &slices, |n, value| {
                    found[n] = value.map(<[u8]>::to_vec)
                })?;
                let expected = keys.iter().map(|key| self.rows.get(key).cloned()).collect();
                same(|| format!("batch of {keys:?}"), &found, &expected)
            }
        }
    }

    fn check(&self, open: &mut OpenTransaction<'_>) -> StepResult {
        let store = self.store(open)?;
        let expected: Vec<Row> = self
            .rows
            .iter()
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        same(
            || "all rows".into(),
            &rows(store.range(open.tx, None, None, false)?)?,
            &expected,
        )?;
        for number in 0..KEYS {
            let key = key(number);
            let found = store.get(open.tx, &key, |value| value.map(<[u8]>::to_vec))?;
            same(
                || format!("get of {key:?}"),
                &found.as_ref(),
                &self.rows.get(&key),
            )?;
        }
        Ok(())
    }

    fn copy(&self) -> Box<dyn Subject> {
        Box::new(self.clone())
    }
}
