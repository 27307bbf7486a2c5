//! Session stores. The model is a map in the order of (end, key, start).

use crate::step_error::StepResult;
use crate::subject::contract::{OpenTransaction, Subject, same};
use crate::subject::draw::{key, value};
use fastrand::Rng;
use holdfast_core::{
    SessionQuery, SessionScan, SessionStore, StoreKind, StoreSpec, Timestamp, WindowedKey,
};
use std::collections::BTreeMap;

const KEYS: u64 = 40;
const TICK: i64 = 10;
/// The retention: forty transactions.
const RETENTION: i64 = 400;

/// End, key, start.
type Place = (i64, Vec<u8>, i64);

#[derive(Clone, Default)]
pub(super) struct Session {
    name: &'static str,
    rows: BTreeMap<Place, Vec<u8>>,
    stream_time: Option<i64>,
}

fn rows(mut scan: SessionScan) -> holdfast_core::Result<Vec<(Place, Vec<u8>)>> {
    let mut rows = Vec::new();
    scan.for_each(&mut |session, value| {
        rows.push((
            (session.end.0, session.key.to_vec(), session.start.0),
            value.to_vec(),
        ));
        true
    })?;
    Ok(rows)
}

impl Session {
    pub(super) fn new(name: &'static str) -> Self {
        Self {
            name,
            ..Self::default()
        }
    }

    fn store(&self, open: &OpenTransaction<'_>) -> holdfast_core::Result<SessionStore> {
        open.db.session(self.name)
    }

    fn horizon(&self) -> i64 {
        self.stream_time
            .map_or(i64::MIN, |time| time - RETENTION + 1)
    }

    fn expected(&self, wanted: impl Fn(&Place) -> bool) -> Vec<(Place, Vec<u8>)> {
        self.rows
            .iter()
            .filter(|(place, _)| wanted(place))
            .map(|(place, value)| (place.clone(), value.clone()))
            .collect()
    }
}

impl Subject for Session {
    fn spec(&self) -> StoreSpec {
        StoreSpec::new(
            self.name,
            StoreKind::Session {
                retention: RETENTION,
            },
        )
    }

    fn write(
        &mut self,
        rng: &mut Rng,
        n: u64,
        open: Option<&mut OpenTransaction<'_>>,
    ) -> StepResult {
        let late = match rng.u8(..12) {
            0 => rng.i64(RETENTION..2 * RETENTION),
            1..=3 => rng.i64(0..RETENTION),
            _ => 0,
        };
        let drawn = key(rng.u64(..KEYS));
        let new = (rng.u8(..4) > 0).then(|| value(rng, n));
        // Up to half of the writes use an existing session.
        let (end, key, start) = match self.rows.keys().nth(rng.usize(..64)) {
            Some(place) if rng.bool() => place.clone(),
            _ => {
                let end = n as i64 * TICK - late;
                (end, drawn, end - rng.i64(0..100))
            }
        };
        if let Some(open) = open {
            let session = WindowedKey {
                key: &key,
                start: Timestamp(start),
                end: Timestamp(end),
            };
            self.store(open)?.put(open.tx, session, new.as_deref())?;
        }
        if end < self.horizon() {
            return Ok(());
        }
        match new {
            Some(value) => self.rows.insert((end, key, start), value),
            None => self.rows.remove(&(end, key, start)),
        };
        self.stream_time = self.stream_time.max(Some(end));
        let horizon = self.horizon();
        self.rows.retain(|(end, _, _), _| *end >= horizon);
        Ok(())
    }

    fn read(&self, rng: &mut Rng, open: &mut OpenTransaction<'_>) -> StepResult {
        let earliest_end = self.stream_time.unwrap_or_default() - rng.i64(0..2 * RETENTION);
        let latest_start = earliest_end + rng.i64(0..RETENTION);
        let (drawn, reverse) = (key(rng.u64(..KEYS)), rng.bool());
        let query = SessionQuery {
            key_from: Some(&drawn),
            key_to: Some(&drawn),
            earliest_end: Timestamp(earliest_end),
            latest_start: Timestamp(latest_start),
            reverse,
        };
        let found = rows(self.store(open)?.find_sessions(open.tx, query)?)?;
        let mut expected = self.expected(|(end, key, start)| {
            *key == drawn && *end >= earliest_end && *start <= latest_start
        });
        if reverse {
            expected.reverse();
        }
        same(|| format!("sessions {query:?}"), &found, &expected)
    }

    fn check(&self, open: &mut OpenTransaction<'_>) -> StepResult {
        let store = self.store(open)?;
        same(
            || "stream time of sessions".into(),
            &store.stream_time(open.tx).map(|t| t.0),
            &self.stream_time,
        )?;
        let (earliest_end, latest_start) = (Timestamp::MIN, Timestamp::MAX);
        let query = SessionQuery {
            key_from: None,
            key_to: None,
            earliest_end,
            latest_start,
            reverse: false,
        };
        same(
            || "all sessions".into(),
            &rows(store.find_sessions(open.tx, query)?)?,
            &self.expected(|_| true),
        )
    }

    fn copy(&self) -> Box<dyn Subject> {
        Box::new(self.clone())
    }
}
