//! Window stores, one with timestamps and one that retains duplicates. The model is a map in the
//! order of (start, key, number of the put).

use crate::step_error::StepResult;
use crate::subject::contract::{OpenTransaction, Subject, same};
use crate::subject::draw::{key, value};
use fastrand::Rng;
use holdfast_core::{StoreKind, StoreSpec, Timestamp, WindowPut, WindowScan, WindowStore};
use std::collections::BTreeMap;

const KEYS: u64 = 40;
/// Windows start at multiples of this; the retention is forty transactions.
const SIZE: i64 = 10;
const RETENTION: i64 = 400;

/// Start, key, and the number of the put if duplicates are retained.
type Place = (i64, Vec<u8>, u64);

/// Start, key, value, timestamp.
type Row = (i64, Vec<u8>, Vec<u8>, Timestamp);

#[derive(Clone)]
pub(super) struct Window {
    name: &'static str,
    duplicates: bool,
    rows: BTreeMap<Place, (Vec<u8>, Timestamp)>,
    stream_time: Option<i64>,
    puts: u64,
}

fn rows(mut scan: WindowScan) -> holdfast_core::Result<Vec<Row>> {
    let mut rows = Vec::new();
    scan.for_each(&mut |window, stamped| {
        rows.push((
            window.start.0,
            window.key.to_vec(),
            stamped.value.to_vec(),
            stamped.timestamp,
        ));
        true
    })?;
    Ok(rows)
}

impl Window {
    pub(super) fn new(name: &'static str, duplicates: bool) -> Self {
        Self {
            name,
            duplicates,
            rows: BTreeMap::new(),
            stream_time: None,
            puts: 0,
        }
    }

    fn store(&self, open: &OpenTransaction<'_>) -> holdfast_core::Result<WindowStore> {
        open.db.window(self.name)
    }

    fn horizon(&self) -> i64 {
        self.stream_time
            .map_or(i64::MIN, |time| time - RETENTION + 1)
    }

    fn expected(&self, wanted: impl Fn(i64, &[u8]) -> bool) -> Vec<Row> {
        let rows = self
            .rows
            .iter()
            .filter(|((start, key, _), _)| wanted(*start, key));
        rows.map(|((start, key, _), (value, at))| (*start, key.clone(), value.clone(), *at))
            .collect()
    }
}

impl Subject for Window {
    fn spec(&self) -> StoreSpec {
        let kind = StoreKind::Window {
            retention: RETENTION,
            window_size: SIZE,
            retain_duplicates: self.duplicates,
            timestamped: !self.duplicates,
        };
        StoreSpec::new(self.name, kind)
    }

    fn write(
        &mut self,
        rng: &mut Rng,
        n: u64,
        open: Option<&mut OpenTransaction<'_>>,
    ) -> StepResult {
        let key = key(rng.u64(..KEYS));
        let late = match rng.u8(..12) {
            0 => rng.i64(RETENTION..2 * RETENTION),
            1..=3 => rng.i64(0..RETENTION),
            _ => 0,
        };
        let start = (n as i64 * SIZE - late).div_euclid(SIZE) * SIZE;
        let new = (rng.u8(..6) > 0).then(|| value(rng, n));
        let at = (!self.duplicates).then_some(Timestamp(start + rng.i64(0..SIZE)));
        if let Some(open) = open {
            let put = WindowPut {
                key: &key,
                value: new.as_deref(),
                start: Timestamp(start),
                timestamp: at,
            };
            let is_stored = !self.duplicates && self.rows.contains_key(&(start, key.clone(), 0));
            if is_stored && n.is_multiple_of(2) {
                self.store(open)?.replace_batch(open.tx, [put])?;
            } else {
                self.store(open)?.put(open.tx, put)?;
            }
        }
        if start < self.horizon() || (self.duplicates && new.is_none()) {
            return Ok(());
        }
        self.puts += u64::from(self.duplicates);
        let row = (start, key, self.puts);
        match new {
            Some(value) => self
                .rows
                .insert(row, (value, at.unwrap_or(holdfast_core::NO_TIMESTAMP))),
            None => self.rows.remove(&row),
        };
        self.stream_time = self.stream_time.max(Some(start));
        let horizon = self.horizon();
        self.rows.retain(|(start, _, _), _| *start >= horizon);
        Ok(())
    }

    fn read(&self, rng: &mut Rng, open: &mut OpenTransaction<'_>) -> StepResult {
        let store = self.store(open)?;
        let from = self.stream_time.unwrap_or_default() - rng.i64(0..2 * RETENTION);
        let to = from + rng.i64(0..RETENTION);
        let (a, b, reverse) = (key(rng.u64(..KEYS)), key(rng.u64(..KEYS)), rng.bool());
        let (low, high) = if a <= b { (a, b) } else { (b, a) };
        let found = rows(store.fetch_range(
            open.tx,
            Some(&low),
            Some(&high),
            Timestamp(from),
            Timestamp(to),
            reverse,
        )?)?;
        let mut expected = self
            .expected(|start, key| (from..=to).contains(&start) && *low <= *key && *key <= *high);
        if reverse {
            expected.reverse();
        }
        same(
            || format!("windows of {low:?} to {high:?} from {from} to {to}, reverse {reverse}"),
            &found,
            &expected,
        )
    }

    fn check(&self, open: &mut OpenTransaction<'_>) -> StepResult {
        let store = self.store(open)?;
        same(
            || format!("stream time of {}", self.name),
            &store.stream_time(open.tx).map(|t| t.0),
            &self.stream_time,
        )?;
        let found =
            rows(store.fetch_range(open.tx, None, None, Timestamp::MIN, Timestamp::MAX, false)?)?;
        same(
            || format!("all of {}", self.name),
            &found,
            &self.expected(|_, _| true),
        )
    }

    fn copy(&self) -> Box<dyn Subject> {
        Box::new(self.clone())
    }
}
