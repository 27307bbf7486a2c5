//! Versioned stores. The model is [`History`].

use crate::step_error::StepResult;
use crate::subject::contract::{OpenTransaction, Subject, same};
use crate::subject::draw::{key, value};
use crate::subject::history::{History, VersionRow as Row};
use fastrand::Rng;
use holdfast_core::{
    Applied, Op, StoreKind, StoreSpec, Timestamp, Version, VersionScan, VersionedStore,
};

const KEYS: u64 = 60;
/// The time that passes in one transaction; the history retention is fifty transactions.
const TICK: i64 = 20;
const RETENTION: i64 = 50 * TICK;
const SEGMENT: i64 = 5 * TICK;

#[derive(Clone)]
pub(super) struct Versioned {
    name: &'static str,
    /// Versions that ended before the horizon are left out.
    history: History,
}

fn owned(version: Option<Version<'_>>) -> Option<Row> {
    version.map(|v| (v.value.to_vec(), v.timestamp.0, v.valid_to.map(|t| t.0)))
}

fn rows(mut scan: VersionScan) -> holdfast_core::Result<Vec<(Vec<u8>, Row)>> {
    let mut rows = Vec::new();
    scan.for_each(&mut |key, v| {
        rows.push((
            key.to_vec(),
            (v.value.to_vec(), v.timestamp.0, v.valid_to.map(|t| t.0)),
        ));
        true
    })?;
    Ok(rows)
}

impl Versioned {
    pub(super) fn new(name: &'static str) -> Self {
        Self {
            name,
            history: History::new(RETENTION),
        }
    }

    fn store(&self, open: &OpenTransaction<'_>) -> holdfast_core::Result<VersionedStore> {
        open.db.versioned(self.name)
    }

    /// A time for a put in transaction `n`. Of 25 such times, 20 are current, 4 are late, and 1 is
    /// older than the retention.
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
        StoreSpec::new(
            self.name,
            StoreKind::Versioned {
                history_retention: RETENTION,
                segment_interval: SEGMENT,
            },
        )
    }

    fn write(
        &mut self,
        rng: &mut Rng,
        n: u64,
        open: Option<&mut OpenTransaction<'_>>,
    ) -> StepResult {
        let (what, at) = (rng.u8(..10), Self::time(rng, n));
        let drawn = key(rng.u64(..KEYS));
        match what {
            0 => {
                let model = if at < self.history.horizon() {
                    None
                } else {
                    self.history.get(&drawn, at)
                };
                self.history.put(&drawn, None, at);
                if let Some(open) = open {
                    let found = self
                        .store(open)?
                        .delete(open.tx, &drawn, Timestamp(at), owned)?;
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
                    model.push(if *put {
                        (Some(self.history.put(key, value.clone(), *at)), None)
                    } else {
                        (None, self.history.get(key, *at))
                    });
                }
                if let Some(open) = open {
                    let ops = batch.iter().map(|(put, key, value, at)| match put {
                        true => Op::Put {
                            key,
                            value: value.as_deref(),
                            timestamp: Timestamp(*at),
                        },
                        false => Op::Get {
                            key,
                            as_of: Timestamp(*at),
                        },
                    });
                    let ops: Vec<_> = ops.collect();
                    let mut found = Vec::new();
                    self.store(open)?
                        .apply_batch(open.tx, &ops, true, &mut |_, applied| {
                            found.push(match applied {
                                Applied::Put(put) => {
                                    (Some((put.accepted, put.valid_to.map(|t| t.0))), None)
                                }
                                Applied::Get(version) => (None, owned(version)),
                                Applied::Expired => (None, None),
                            });
                        })?;
                    same(|| format!("batch {batch:?}"), &found, &model)?;
                }
            }
            _ => {
                let value = (what < 9).then(|| value(rng, n));
                let model = self.history.put(&drawn, value.clone(), at);
                if let Some(open) = open {
                    let put =
                        self.store(open)?
                            .put(open.tx, &drawn, value.as_deref(), Timestamp(at))?;
                    same(
                        || format!("put of {drawn:?} at {at}"),
                        &(put.accepted, put.valid_to.map(|t| t.0)),
                        &model,
                    )?;
                }
            }
        }
        self.history.expire();
        Ok(())
    }

    fn read(&self, rng: &mut Rng, open: &mut OpenTransaction<'_>) -> StepResult {
        let store = self.store(open)?;
        let now = self.history.stream_time().unwrap_or_default();
        let drawn = key(rng.u64(..KEYS));
        let at = now - rng.i64(-TICK..2 * RETENTION);
        let to = at + rng.i64(0..RETENTION);
        match rng.u8(..3) {
            0 => {
                let ascending = rng.bool();
                let found = rows(store.versions(
                    open.tx,
                    &drawn,
                    Timestamp(at),
                    Timestamp(to),
                    ascending,
                )?)?;
                let mut expected: Vec<_> = self
                    .history
                    .versions(&drawn, at, to)
                    .into_iter()
                    .map(|row| (drawn.clone(), row))
                    .collect();
                if !ascending {
                    expected.reverse();
                }
                same(
                    || format!("versions of {drawn:?} from {at} to {to}"),
                    &found,
                    &expected,
                )
            }
            1 => {
                let found = rows(store.scan(open.tx, Some(Timestamp(at)))?)?;
                let expected = self
                    .history
                    .keys()
                    .filter_map(|key| self.history.get(key, at).map(|row| (key.to_vec(), row)))
                    .collect::<Vec<_>>();
                let ends = |rows: Vec<(Vec<u8>, Row)>| {
                    rows.into_iter()
                        .map(|(k, (v, b, _))| (k, v, b))
                        .collect::<Vec<_>>()
                };
                same(|| format!("scan as of {at}"), &ends(found), &ends(expected))
            }
            _ => {
                let found = store.get_as_of(open.tx, &drawn, Timestamp(at), owned)?;
                same(
                    || format!("get of {drawn:?} as of {at}"),
                    &found,
                    &self.history.get(&drawn, at),
                )
            }
        }
    }

    fn check(&self, open: &mut OpenTransaction<'_>) -> StepResult {
        let store = self.store(open)?;
        same(
            || "stream time".into(),
            &store.stream_time(open.tx).map(|t| t.0),
            &self.history.stream_time(),
        )?;
        let (from, to) = (i64::MIN, i64::MAX);
        let found =
            rows(store.versions_range(open.tx, None, None, Timestamp(from), Timestamp(to))?)?;
        let expected = self.history.keys().flat_map(|key| {
            self.history
                .versions(key, from, to)
                .into_iter()
                .map(move |row| (key.to_vec(), row))
        });
        same(|| "all versions".into(), &found, &expected.collect())?;
        for number in 0..KEYS {
            let key = key(number);
            let found = store.get(open.tx, &key, owned)?;
            same(
                || format!("newest of {key:?}"),
                &found,
                &self.history.get(&key, i64::MAX),
            )?;
        }
        Ok(())
    }

    fn copy(&self) -> Box<dyn Subject> {
        Box::new(self.clone())
    }
}
