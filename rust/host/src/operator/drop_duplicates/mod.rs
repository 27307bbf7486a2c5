//! Deduplication: a row goes out iff no row of its key within a time of its own came before it.
//!
//! One time a key is enough for that. With `T` the stream time, rows older than `T - within` are
//! refused; a row that is not, and not younger than the newest row of its key by more than
//! `within`, is within `within` of that one; and a row that is younger by more is further yet from
//! all others of its key. So the store has the newest time of each key, as a window that starts
//! there, and forgets it `2 * within` behind `T`, where no row that is taken can be near it any
//! more.

use std::collections::{BTreeMap, HashMap};

use arrow_schema::Schema;
use holdfast_core::{
    Database, Error, ErrorKind, Result, StoreSpec, Timestamp, Transaction, WindowPut, WindowStore,
};
use serde::Deserialize;
use serde_json::Value;
use xxhash_rust::xxh3::Xxh3Default;

use super::batch::batches;
use super::output::{Right, digest_places};
use super::rows::{Layout, Order, Place, Rows, RowsSpec, Sides};
use super::{Counts, Operator, Outcome, Output, OutputColumn, Worker, by_time};
use crate::protocol::{Digest, Epoch};
use crate::root::OperatorMeta;

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
        vec![StoreSpec::new(SEEN, by_time(retention, 0))]
    }
}

/// One session of a deduplication.
pub struct DropDuplicates {
    within: i64,
    output: Output,
    rows: Rows,
    counts: Counts,
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
            return Err(Error::new(
                ErrorKind::InvalidValue,
                format!("drop_duplicates: within is negative ({})", spec.within),
            ));
        }
        let layout = Layout::new("drop_duplicates", &spec.rows, schema)?;
        let output = Output::new("drop_duplicates", &spec.output, &layout)?;
        Ok(Self {
            within: spec.within,
            output,
            rows: Rows::new(layout),
            counts: Counts::default(),
        })
    }

    /// Those rows of a part that are taken, in order, each with its time: none is older than
    /// `oldest`.
    fn taken(&mut self, part: Vec<Place>, oldest: i64) -> Vec<(Place, i64)> {
        let timed = part.into_iter().filter_map(|place| {
            match self.rows.inputs[place.input()].time(place.row()) {
                None => {
                    self.counts.dropped += 1;
                    None
                }
                Some(time) if time < oldest => {
                    self.counts.late += 1;
                    None
                }
                Some(time) => Some((place, time)),
            }
        });
        timed.collect()
    }
}

impl Operator for DropDuplicates {
    fn meta(&self, first_epoch: Epoch) -> OperatorMeta {
        let settings = BTreeMap::from([("within".to_owned(), Value::from(self.within))]);
        self.rows
            .layout
            .meta("drop_duplicates", Sides::default(), settings, first_epoch)
    }

    fn input(&mut self) -> (&mut Rows, &mut Counts) {
        (&mut self.rows, &mut self.counts)
    }

    fn run(
        &mut self,
        db: &Database,
        tx: &mut Transaction,
        worker: &mut dyn Worker,
    ) -> Result<Outcome> {
        let seen = db.window(SEEN)?;
        let oldest = seen
            .stream_time(tx)
            .map_or(i64::MIN, |time| time.0.saturating_sub(self.within));
        let mut digest = Xxh3Default::new();
        let mut newest = NewestTimes {
            last: self.rows.heartbeat,
            ..NewestTimes::default()
        };
        while let Some(part) = self.rows.next_part(Order::Matchable, &mut self.counts)? {
            let taken = self.taken(part, oldest);
            let fresh = self.fresh(&seen, tx, &mut newest, &taken)?;
            for places in batches(&fresh, |place| self.rows.row_bytes(*place)) {
                digest_places(&self.rows.inputs, places, &mut digest);
                self.counts.output_rows += places.len() as u64;
                worker.emit(self.output.of_places(&self.rows, places, &Right::none())?)?;
            }
        }
        newest.keep(&seen, tx)?;
        Ok(Outcome {
            input: self.rows.digest(),
            output: Digest::from_hasher(&digest),
            counts: self.counts,
        })
    }
}

impl DropDuplicates {
    /// Those rows of a part that no like came before.
    fn fresh(
        &self,
        seen: &WindowStore,
        tx: &mut Transaction,
        newest: &mut NewestTimes,
        taken: &[(Place, i64)],
    ) -> Result<Vec<Place>> {
        let key = |place: &Place| self.rows.inputs[place.input()].keys.with_nulls(place.row());
        let numbers: Vec<usize> = taken
            .iter()
            .map(|(place, _)| newest.enter(key(place)))
            .collect();
        newest.load(seen, tx)?;
        newest.last = newest.last.max(taken.last().map(|(_, time)| *time));
        let fresh = taken
            .iter()
            .zip(numbers)
            .filter_map(|((place, time), number)| {
                let key = &mut newest.times[number];
                let is_near = key
                    .now
                    .is_some_and(|now| time.saturating_sub(now) <= self.within);
                key.now = key.now.max(Some(*time));
                (!is_near).then_some(*place)
            });
        Ok(fresh.collect())
    }
}

/// The keys of an epoch, each with its newest time.
#[derive(Default)]
struct NewestTimes {
    numbers: HashMap<Vec<u8>, usize>,
    keys: Vec<Vec<u8>>,
    times: Vec<Newest>,
    /// The greatest time of the epoch, its heartbeat's included.
    last: Option<i64>,
}

impl NewestTimes {
    /// The number of a key, a new one if it is new.
    fn enter(&mut self, key: &[u8]) -> usize {
        if let Some(number) = self.numbers.get(key) {
            return *number;
        }
        self.keys.push(key.to_vec());
        self.numbers.insert(key.to_vec(), self.keys.len() - 1);
        self.keys.len() - 1
    }

    /// Reads the stored times of the keys that are new.
    fn load(&mut self, seen: &WindowStore, tx: &mut Transaction) -> Result<()> {
        let Self { keys, times, .. } = self;
        let loaded = times.len();
        times.resize(
            keys.len(),
            Newest {
                stored: None,
                now: None,
            },
        );
        let keys: Vec<&[u8]> = keys[loaded..].iter().map(Vec::as_slice).collect();
        let (from, to) = (
            vec![Timestamp::MIN; keys.len()],
            vec![Timestamp::MAX; keys.len()],
        );
        seen.fetch_ranges(tx, &keys, &from, &to, &mut |number, window, _| {
            let time = Some(window.start.0);
            times[loaded + number] = Newest {
                stored: time,
                now: time,
            };
        })
    }

    /// Stores the newest times.
    fn keep(&self, seen: &WindowStore, tx: &mut Transaction) -> Result<()> {
        let Some(last) = self.last else { return Ok(()) };
        let stream_time = seen.stream_time(tx).map_or(last, |time| time.0.max(last));
        let oldest = stream_time.saturating_sub(seen.retention() - 1);
        let changed = || {
            self.keys
                .iter()
                .zip(&self.times)
                .filter(|(_, time)| time.now != time.stored)
        };
        let put = |key, start, value| WindowPut {
            key,
            value,
            start: Timestamp(start),
            timestamp: None,
        };
        // The old ones first: a new one may raise the stream time above them.
        let old = changed().filter_map(|(key, newest)| {
            Some(put(
                key,
                newest.stored.filter(|time| *time >= oldest)?,
                None,
            ))
        });
        seen.put_batch(tx, old)?;
        let new = changed().filter_map(|(key, newest)| {
            Some(put(
                key,
                newest.now.filter(|time| *time >= oldest)?,
                Some(&[][..]),
            ))
        });
        seen.put_batch(tx, new)?;
        seen.advance_stream_time(tx, Timestamp(stream_time));
        Ok(())
    }
}
