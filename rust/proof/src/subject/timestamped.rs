//! Timestamped key-value stores. The model is a map from keys to values with timestamps.

use crate::step_error::StepResult;
use crate::subject::contract::{OpenTransaction, Subject, same};
use crate::subject::draw::{key, range, remove_range, value};
use fastrand::Rng;
use holdfast_core::{
    Stamped, StampedScan, StoreKind, StoreSpec, Timestamp, TimestampedKeyValueStore,
};
use std::collections::BTreeMap;
use std::ops::Bound;

const KEYS: u64 = 200;

type Value = (Vec<u8>, Timestamp);

#[derive(Clone, Default)]
pub(super) struct TimestampedKeyValue {
    name: &'static str,
    rows: BTreeMap<Vec<u8>, Value>,
}

fn rows(mut scan: StampedScan) -> holdfast_core::Result<Vec<(Vec<u8>, Value)>> {
    let mut rows = Vec::new();
    scan.for_each(&mut |key, stamped| {
        rows.push((key.to_vec(), stamped.to_owned()));
        true
    })?;
    Ok(rows)
}

impl TimestampedKeyValue {
    pub(super) fn new(name: &'static str) -> Self {
        Self {
            name,
            ..Self::default()
        }
    }

    fn store(&self, open: &OpenTransaction<'_>) -> holdfast_core::Result<TimestampedKeyValueStore> {
        open.db.timestamped_key_value(self.name)
    }
}

impl Subject for TimestampedKeyValue {
    fn spec(&self) -> StoreSpec {
        StoreSpec::new(self.name, StoreKind::TimestampedKeyValue)
    }

    fn write(
        &mut self,
        rng: &mut Rng,
        n: u64,
        open: Option<&mut OpenTransaction<'_>>,
    ) -> StepResult {
        let (key, new) = (key(rng.u64(..KEYS)), value(rng, n));
        let at = Timestamp(n as i64 - rng.i64(0..50));
        match rng.u8(..8) {
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
                    let found = self
                        .store(open)?
                        .put_if_absent(open.tx, &key, Some(&new), at)?;
                    same(
                        || format!("put_if_absent of {key:?}"),
                        &found.as_ref(),
                        &self.rows.get(&key),
                    )?;
                }
                self.rows.entry(key).or_insert((new, at));
            }
            2 => {
                let (from, to) = range(rng, &key);
                if let Some(open) = open {
                    self.store(open)?
                        .delete_range(open.tx, from.as_deref(), to.as_deref())?;
                }
                remove_range(&mut self.rows, &from, &to);
            }
            _ => {
                if let Some(open) = open {
                    self.store(open)?.put(open.tx, &key, Some(&new), at)?;
                }
                self.rows.insert(key, (new, at));
            }
        }
        Ok(())
    }

    fn read(&self, rng: &mut Rng, open: &mut OpenTransaction<'_>) -> StepResult {
        let (a, b, reverse) = (key(rng.u64(..KEYS)), key(rng.u64(..KEYS)), rng.bool());
        let (from, to) = if a <= b { (a, b) } else { (b, a) };
        let found = rows(
            self.store(open)?
                .range(open.tx, Some(&from), Some(&to), reverse)?,
        )?;
        let bounds = (
            Bound::Included(from.as_slice()),
            Bound::Included(to.as_slice()),
        );
        let mut expected: Vec<_> = self
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

    fn check(&self, open: &mut OpenTransaction<'_>) -> StepResult {
        let store = self.store(open)?;
        let expected = self
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
            let found = store.get(open.tx, &key, |found| found.map(Stamped::to_owned))?;
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
