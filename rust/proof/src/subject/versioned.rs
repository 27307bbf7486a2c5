//! Versioned stores: a map of maps, and the stream time.

use super::{Open, Subject, key, same, spec, value};
use crate::world::Outcome;
use fastrand::Rng;
use holdfast_core::{Applied, Op, StoreKind, StoreSpec, Timestamp, Version, VersionScan, VersionedStore};
use std::collections::BTreeMap;

const KEYS: u64 = 60;
/// Time that a transaction takes; history is kept for fifty of them.
const TICK: i64 = 20;
const RETENTION: i64 = 50 * TICK;
const SEGMENT: i64 = 5 * TICK;

/// Value, begin, end.
type Row = (Vec<u8>, i64, Option<i64>);

#[derive(Clone, Default)]
pub(super) struct Versioned {
    name: &'static str,
    /// key → begin → value; versions that ended before the horizon are left out.
    keys: BTreeMap<Vec<u8>, BTreeMap<i64, Option<Vec<u8>>>>,
    stream_time: Option<i64>,
}

fn owned(version: Option<Version<'_>>) -> Option<Row> {
    version.map(|v| (v.value.to_vec(), v.timestamp.0, v.valid_to.map(|t| t.0)))
}

fn rows(mut scan: VersionScan) -> holdfast_core::Result<Vec<(Vec<u8>, Row)>> {
    let mut rows = Vec::new();
    scan.for_each(&mut |key, v| {
        rows.push((key.to_vec(), (v.value.to_vec(), v.timestamp.0, v.valid_to.map(|t| t.0))));
        true
    })?;
    Ok(rows)
}

impl Versioned {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, ..Self::default() }
    }

    fn store(&self, open: &Open<'_>) -> holdfast_core::Result<VersionedStore> {
        open.task.versioned(self.name)
    }

    fn horizon(&self) -> i64 {
        self.stream_time.map_or(i64::MIN, |time| time - RETENTION)
    }

    fn put(&mut self, key: &[u8], value: Option<Vec<u8>>, at: i64) -> (bool, Option<i64>) {
        if at < self.horizon() {
            return (false, None);
        }
        let versions = self.keys.entry(key.to_vec()).or_default();
        versions.insert(at, value);
        let next = versions.range(at + 1..).next().map(|(begin, _)| *begin);
        self.stream_time = self.stream_time.max(Some(at));
        (true, next)
    }

    /// Forgets what nobody can ask for any more.
    fn expire(&mut self) {
        let horizon = self.horizon();
        for versions in self.keys.values_mut() {
            while versions.len() > 1 && versions.keys().nth(1).is_some_and(|end| *end < horizon) {
                versions.pop_first();
            }
        }
    }

    fn row(versions: &BTreeMap<i64, Option<Vec<u8>>>, begin: i64) -> Option<Row> {
        let value = versions[&begin].clone()?;
        Some((value, begin, versions.range(begin + 1..).next().map(|(begin, _)| *begin)))
    }

    fn get(&self, key: &[u8], at: i64) -> Option<Row> {
        let versions = self.keys.get(key)?;
        let (newest, _) = versions.last_key_value()?;
        if at < self.horizon() && *newest > at {
            return None;
        }
        let (begin, _) = versions.range(..=at).next_back()?;
        Self::row(versions, *begin)
    }

    fn versions(&self, key: &[u8], from: i64, to: i64) -> Vec<Row> {
        let Some(versions) = self.keys.get(key) else { return Vec::new() };
        let newest_only = to < self.horizon();
        let rows = versions.keys().filter_map(|begin| Self::row(versions, *begin));
        rows.filter(|(_, begin, end)| *begin <= to && end.is_none_or(|end| !newest_only && end > from && end >= self.horizon())).collect()
    }

    /// A time of transaction `n`: mostly its own, every fifth late, now and then too late.
    fn time(rng: &mut Rng, n: u64) -> i64 {
        let now = n as i64 * TICK + rng.i64(0..TICK);
        match rng.u8(..25) {
            0 => now - rng.i64(RETENTION..2 * RETENTION),
            1..=4 => now - rng.i64(0..RETENTION),
            _ => now,
        }
    }
}

impl Subject for Versioned {
    fn spec(&self) -> StoreSpec {
        spec(self.name, StoreKind::Versioned { history_retention: RETENTION, segment_interval: SEGMENT })
    }

    fn write(&mut self, rng: &mut Rng, n: u64, open: Option<&mut Open<'_>>) -> Outcome {
        let (what, at) = (rng.u8(..10), Self::time(rng, n));
        let drawn = key(rng.u64(..KEYS));
        match what {
            0 => {
                let model = if at < self.horizon() { None } else { self.get(&drawn, at) };
                self.put(&drawn, None, at);
                if let Some(open) = open {
                    let found = self.store(open)?.delete(open.tx, &drawn, Timestamp(at), owned)?;
                    same(|| format!("delete of {drawn:?} at {at}"), &found, &model)?;
                }
            }
            1..=3 => {
                let mut batch = Vec::new();
                for _ in 0..rng.usize(1..20) {
                    let put = rng.u8(..3) > 0;
                    let value = (rng.u8(..8) > 0).then(|| value(rng, n));
                    batch.push((put, key(rng.u64(..KEYS)), value, Self::time(rng, n)));
                }
                let mut model = Vec::new();
                for (put, key, value, at) in &batch {
                    model.push(if *put { (Some(self.put(key, value.clone(), *at)), None) } else { (None, self.get(key, *at)) });
                }
                if let Some(open) = open {
                    let ops = batch.iter().map(|(put, key, value, at)| match put {
                        true => Op::Put { key, value: value.as_deref(), timestamp: Timestamp(*at) },
                        false => Op::Get { key, as_of: Timestamp(*at) },
                    });
                    let ops: Vec<_> = ops.collect();
                    let mut found = Vec::new();
                    self.store(open)?.apply_batch(open.tx, &ops, true, &mut |_, applied| {
                        found.push(match applied {
                            Applied::Put(put) => (Some((put.accepted, put.valid_to.map(|t| t.0))), None),
                            Applied::Get(version) => (None, owned(version)),
                        });
                    })?;
                    same(|| format!("batch {batch:?}"), &found, &model)?;
                }
            }
            _ => {
                let value = (what < 9).then(|| value(rng, n));
                let model = self.put(&drawn, value.clone(), at);
                if let Some(open) = open {
                    let put = self.store(open)?.put(open.tx, &drawn, value.as_deref(), Timestamp(at))?;
                    same(|| format!("put of {drawn:?} at {at}"), &(put.accepted, put.valid_to.map(|t| t.0)), &model)?;
                }
            }
        }
        self.expire();
        Ok(())
    }

    fn read(&self, rng: &mut Rng, open: &mut Open<'_>) -> Outcome {
        let store = self.store(open)?;
        let now = self.stream_time.unwrap_or_default();
        let drawn = key(rng.u64(..KEYS));
        let at = now - rng.i64(-TICK..2 * RETENTION);
        let to = at + rng.i64(0..RETENTION);
        match rng.u8(..3) {
            0 => {
                let ascending = rng.bool();
                let found = rows(store.versions(open.tx, &drawn, Timestamp(at), Timestamp(to), ascending)?)?;
                let mut expected: Vec<_> = self.versions(&drawn, at, to).into_iter().map(|row| (drawn.clone(), row)).collect();
                if !ascending {
                    expected.reverse();
                }
                same(|| format!("versions of {drawn:?} from {at} to {to}"), &found, &expected)
            }
            1 => {
                let found = rows(store.scan(open.tx, Some(Timestamp(at)))?)?;
                let expected = self.keys.keys().filter_map(|key| self.get(key, at).map(|row| (key.clone(), row))).collect::<Vec<_>>();
                let ends = |rows: Vec<(Vec<u8>, Row)>| rows.into_iter().map(|(k, (v, b, _))| (k, v, b)).collect::<Vec<_>>();
                same(|| format!("scan as of {at}"), &ends(found), &ends(expected))
            }
            _ => {
                let found = store.get_as_of(open.tx, &drawn, Timestamp(at), owned)?;
                same(|| format!("get of {drawn:?} as of {at}"), &found, &self.get(&drawn, at))
            }
        }
    }

    fn check(&self, open: &mut Open<'_>) -> Outcome {
        let store = self.store(open)?;
        same(|| "stream time".into(), &store.stream_time(open.tx).map(|t| t.0), &self.stream_time)?;
        let (from, to) = (i64::MIN, i64::MAX);
        let found = rows(store.versions_range(open.tx, None, None, Timestamp(from), Timestamp(to))?)?;
        let expected = self.keys.keys().flat_map(|key| self.versions(key, from, to).into_iter().map(move |row| (key.clone(), row)));
        same(|| "all versions".into(), &found, &expected.collect())?;
        for number in 0..KEYS {
            let key = key(number);
            let found = store.get(open.tx, &key, owned)?;
            same(|| format!("newest of {key:?}"), &found, &self.get(&key, i64::MAX))?;
        }
        Ok(())
    }

    fn copy(&self) -> Box<dyn Subject> {
        Box::new(self.clone())
    }
}
