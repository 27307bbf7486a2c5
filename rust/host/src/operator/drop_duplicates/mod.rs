//! Deduplication: a row goes out iff no row of its key within a time of its own came before it.
//!
//! One time a key is enough for that. With `T` the stream time, rows older than `T - within` are refused; a row that is not,
//! and not younger than the newest row of its key by more than `within`, is within `within` of that one; and a row that is
//! younger by more is further yet from all others of its key. So the store has the newest time of each key, as a window that
//! starts there, and forgets it `2 * within` behind `T`, where no row that is taken can be near it any more.

use std::collections::{BTreeMap, HashMap};

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use holdfast_core::{Error, ErrorKind, Result, StoreKind, StoreSpec, Task, Timestamp, Transaction, WindowPut, WindowStore};
use serde::Deserialize;
use serde_json::Value;
use xxhash_rust::xxh3::Xxh3Default;

use super::output::{Right, digest_places};
use super::rows::{self, Layout, Place, Rows, RowsSpec};
use super::{BATCH_ROWS, Counts, Operator, Outcome, Output, OutputColumn, Worker};
use crate::protocol::{Digest, Epoch};
use crate::root::{OperatorMeta, Payload};

/// The store of each key's newest time.
const SEEN: &str = "seen";

/// What the driver says about the deduplication.
#[derive(Debug, Clone, Deserialize)]
pub struct Spec {
    /// The input's columns; all rows are left ones.
    #[serde(flatten)]
    pub rows: RowsSpec,
    /// How near in time two rows are one and the same: microseconds.
    pub within: i64,
    /// The result's columns.
    pub output: Vec<OutputColumn>,
}

impl Spec {
    /// The one store: each key's newest time.
    pub fn stores(&self) -> Vec<StoreSpec> {
        let retention = self.within.saturating_mul(2).saturating_add(1);
        let kind = StoreKind::Window { retention, window_size: 0, retain_duplicates: false, timestamped: false };
        vec![StoreSpec::new(SEEN, kind)]
    }
}

/// One session of a deduplication.
pub struct DropDuplicates {
    within: i64,
    output: Output,
    rows: Rows,
    counts: Counts,
    heartbeat: Option<i64>,
}

/// A key's newest time.
#[derive(Clone, Copy)]
struct Newest {
    stored: Option<i64>,
    now: Option<i64>,
}

impl DropDuplicates {
    /// A deduplication of rows of these columns.
    ///
    /// # Errors
    /// `InvalidValue` or `InvalidType` names the column or setting that does not fit.
    pub fn new(spec: &Spec, schema: &Schema) -> Result<Self> {
        if spec.within < 0 {
            return Err(Error::new(ErrorKind::InvalidValue, format!("drop_duplicates: within is negative ({})", spec.within)));
        }
        let layout = Layout::new("drop_duplicates", &spec.rows, schema)?;
        let output = Output::new("drop_duplicates", &spec.output, &layout)?;
        Ok(Self { within: spec.within, output, rows: Rows::new(layout), counts: Counts::default(), heartbeat: None })
    }

    /// The rows that are taken, in order, each with its time.
    fn taken(&mut self, stream_time: Option<i64>) -> Vec<(Place, i64)> {
        let oldest = stream_time.map_or(i64::MIN, |time| time.saturating_sub(self.within));
        let ordered = rows::order(&self.rows.inputs, &mut self.counts);
        let timed = ordered.into_iter().filter_map(|place| match self.rows.inputs[place.input()].time(place.row()) {
            None => {
                self.counts.dropped += 1;
                None
            }
            Some(time) if time < oldest => {
                self.counts.late += 1;
                None
            }
            Some(time) => Some((place, time)),
        });
        timed.collect()
    }
}

impl Operator for DropDuplicates {
    fn meta(&self, first_epoch: Epoch) -> OperatorMeta {
        let layout = &self.rows.layout;
        OperatorMeta {
            kind: "drop_duplicates".to_owned(),
            key: layout.columns(layout.keys.clone()),
            value: Vec::new(),
            payload: Payload::default(),
            settings: BTreeMap::from([("within".to_owned(), Value::from(self.within))]),
            first_epoch,
        }
    }

    fn rows(&mut self) -> &mut Rows {
        &mut self.rows
    }

    fn push(&mut self, batch: RecordBatch, partition: Option<i32>) -> Result<()> {
        self.rows.push(batch, partition, &mut self.counts)
    }

    fn set_heartbeat(&mut self, time: i64) {
        self.heartbeat = Some(time);
    }

    fn run(&mut self, task: &Task, tx: &mut Transaction, worker: &mut dyn Worker) -> Result<Outcome> {
        let seen = task.window(SEEN)?;
        let taken = self.taken(seen.stream_time(tx).map(|time| time.0));
        let inputs = &self.rows.inputs;
        let mut numbers: HashMap<&[u8], usize> = HashMap::new();
        let mut keys: Vec<&[u8]> = Vec::new();
        let numbered: Vec<(Place, i64, usize)> = taken
            .iter()
            .map(|(place, time)| {
                let key = inputs[place.input()].keys.with_nulls(place.row());
                let number = *numbers.entry(key).or_insert_with(|| {
                    keys.push(key);
                    keys.len() - 1
                });
                (*place, *time, number)
            })
            .collect();
        let mut newest = newest(&seen, tx, &keys)?;
        let fresh = numbered.into_iter().filter_map(|(place, time, number)| {
            let key = &mut newest[number];
            let is_near = key.now.is_some_and(|now| time.saturating_sub(now) <= self.within);
            key.now = key.now.max(Some(time));
            (!is_near).then_some(place)
        });
        let fresh: Vec<Place> = fresh.collect();
        keep(&seen, tx, &keys, &newest, taken.last().map(|(_, time)| *time).max(self.heartbeat))?;
        let mut digest = Xxh3Default::new();
        for places in fresh.chunks(BATCH_ROWS) {
            digest_places(inputs, places, &mut digest);
            self.counts.output_rows += places.len() as u64;
            worker.emit(self.output.of_places(&self.rows, places, &Right::none())?)?;
        }
        Ok(Outcome { input: self.rows.digest(), output: Digest::from_hasher(&digest), counts: self.counts })
    }
}

/// The newest times of keys, as they are stored.
fn newest(seen: &WindowStore, tx: &mut Transaction, keys: &[&[u8]]) -> Result<Vec<Newest>> {
    let mut newest = vec![Newest { stored: None, now: None }; keys.len()];
    let (from, to) = (vec![Timestamp::MIN; keys.len()], vec![Timestamp::MAX; keys.len()]);
    seen.fetch_ranges(tx, keys, &from, &to, &mut |number, window, _| {
        let time = Some(window.start.0);
        newest[number] = Newest { stored: time, now: time };
    })?;
    Ok(newest)
}

/// Stores the keys' newest times. `last`: the greatest time of the epoch.
fn keep(seen: &WindowStore, tx: &mut Transaction, keys: &[&[u8]], newest: &[Newest], last: Option<i64>) -> Result<()> {
    let Some(last) = last else { return Ok(()) };
    let stream_time = seen.stream_time(tx).map_or(last, |time| time.0.max(last));
    let oldest = stream_time.saturating_sub(seen.retention() - 1);
    let changed = || keys.iter().zip(newest).filter(|(_, key)| key.now != key.stored);
    let put = |key, start, value| WindowPut { key, value, start: Timestamp(start), timestamp: None };
    // The old ones first: a new one may raise the stream time above them.
    let old = changed().filter_map(|(key, newest)| Some(put(*key, newest.stored.filter(|time| *time >= oldest)?, None)));
    seen.put_batch(tx, old)?;
    let new = changed().filter_map(|(key, newest)| Some(put(*key, newest.now.filter(|time| *time >= oldest)?, Some(&[][..]))));
    seen.put_batch(tx, new)?;
    seen.advance_stream_time(tx, Timestamp(stream_time));
    Ok(())
}
