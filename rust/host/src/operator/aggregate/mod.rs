//! Aggregation by key, and by windows of event time.
//!
//! An epoch's rows are put into groups (a key, and a window's start where there are windows); what is kept of each group is
//! read in one batch, the rows are added, the groups are written back and their results emitted. `spec.rs` settings ·
//! `groups.rs` the groups of an epoch · `window.rs` which windows a row is in · `accumulator.rs` what a function keeps.
//!
//! A row is late if its window was closed (its end is `grace` or more behind the stream time) before it came; without
//! windows, if its time is. Rows of one epoch are worked on by time, so none makes another of its own epoch late.

mod accumulator;
mod groups;
mod items;
mod number;
mod pick;
mod spec;
mod window;

pub use spec::{Aggregate, Emit, Function, Spec, Window};

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, TimestampMicrosecondArray};
use arrow_schema::{DataType, Field, Schema};
use holdfast_core::{Error, ErrorKind, KeyValueStore, Result, Stamped, Task, Timestamp, Transaction, WindowPut, WindowStore};
use serde_json::Value;
use xxhash_rust::xxh3::Xxh3Default;

use super::rows::{self, Place, Rows};
use super::{BATCH_ROWS, Counts, Operator, Outcome, Worker};
use crate::protocol::{Digest, Epoch};
use crate::root::{Column, OperatorMeta, Payload};
use crate::row::RowCodec;
use accumulator::{Access, Accumulator, Assigned, accumulator};
use groups::Groups;

/// The store of the groups' states.
const GROUPS: &str = "groups";
/// The store of single values.
const ITEMS: &str = "items";
/// The store of the stream time.
const PROGRESS: &str = "progress";
const STREAM_TIME: &[u8] = b"stream time";

/// One session of an aggregation.
pub struct Aggregation {
    spec: Spec,
    rows: Rows,
    accumulators: Vec<Box<dyn Accumulator>>,
    codec: RowCodec,
    counts: Counts,
}

/// Where the groups' states are.
enum States {
    ByKey(KeyValueStore),
    ByWindow(WindowStore, Window),
}

impl Aggregation {
    /// An aggregation of input of these columns.
    ///
    /// # Errors
    /// `InvalidValue` or `InvalidType` names the setting or the column that does not fit.
    pub fn new(spec: &Spec, schema: &Schema) -> Result<Self> {
        spec.check()?;
        let layout = rows::Layout::new("aggregate", &spec.rows, schema)?;
        let numbered = spec.aggregates.iter().enumerate();
        let accumulators =
            numbered.map(|(number, aggregate)| accumulator(number, aggregate, &layout, spec.timed)).collect::<Result<Vec<_>>>()?;
        let types = accumulators.iter().flat_map(|accumulator| accumulator.state_types());
        let fields: Vec<Field> = types.map(|data_type| Field::new("state", data_type, true)).collect();
        Ok(Self { codec: RowCodec::new(&fields)?, spec: spec.clone(), rows: Rows::new(layout), accumulators, counts: Counts::default() })
    }

    /// The rows that are in time, each with its groups; the stream time rises on the way.
    fn assign(&mut self, groups: &mut Groups, stream_time: &mut Option<i64>) -> Vec<Assigned> {
        let Self { spec, rows, counts, accumulators, .. } = self;
        let places: Vec<Place> = if spec.timed || accumulators.iter().any(|accumulator| accumulator.needs_order()) {
            rows::order(&rows.inputs, counts)
        } else {
            rows::unordered(&rows.inputs)
        };
        let mut assigned = Vec::with_capacity(places.len());
        for place in places {
            let input = &rows.inputs[place.input()];
            let (key, time) = (input.keys.with_nulls(place.row()), input.time(place.row()));
            if let Some(time) = time {
                *stream_time = Some(stream_time.map_or(time, |now| now.max(time)));
            }
            let late = |end: i64| spec.grace().zip(*stream_time).is_some_and(|(grace, now)| end.saturating_add(grace) < now);
            match (spec.window, time) {
                (None, Some(time)) if late(time) => counts.late += 1,
                (None, time) => {
                    assigned.push(Assigned { group: groups.enter(key, 0), place, time: time.unwrap_or(i64::MIN) });
                }
                (Some(_), None) => counts.dropped += 1,
                (Some(window), Some(time)) => {
                    let before = assigned.len();
                    for start in window.starts(time) {
                        let closed = spec.grace().zip(*stream_time).is_some_and(|(grace, now)| window.is_closed(start, now, grace));
                        if !closed {
                            assigned.push(Assigned { group: groups.enter(key, start), place, time });
                        }
                    }
                    counts.late += u64::from(assigned.len() == before);
                }
            }
        }
        assigned
    }

    /// Which groups' results go out, in order.
    fn emitted(&self, groups: &Groups, touched: usize, stream_time: Option<i64>) -> Vec<usize> {
        let mut order = groups.ordered();
        match (self.spec.emit, self.spec.window) {
            (Emit::Close, Some(window)) => {
                let grace = self.spec.grace().unwrap_or(0);
                let closed = |start| stream_time.is_some_and(|now| window.is_closed(start, now, grace));
                order.retain(|group| self.spec.last || closed(groups.start(*group)));
            }
            _ => order.retain(|group| *group < touched),
        }
        order
    }

    fn result_columns(
        &mut self,
        groups: &Groups,
        emitted: &[usize],
        access: &mut Access<'_>,
        digest: &mut Xxh3Default,
    ) -> Result<RecordBatch> {
        let layout = &self.rows.layout;
        let mut fields: Vec<Field> = layout.keys.clone().map(|key| layout.field(key).clone().with_nullable(true)).collect();
        let mut columns = layout.key_codec.decode(emitted.iter().map(|group| groups.key(*group)))?;
        if let Some(window) = self.spec.window {
            let times = |end: i64| -> ArrayRef {
                let times: TimestampMicrosecondArray = emitted.iter().map(|group| Some(groups.start(*group).saturating_add(end))).collect();
                match &layout.time_type {
                    DataType::Timestamp(_, Some(zone)) => Arc::new(times.with_timezone(Arc::clone(zone))),
                    _ => Arc::new(times),
                }
            };
            columns.extend([times(0), times(window.length)]);
            fields.extend(["window_start", "window_end"].map(|name| Field::new(name, layout.time_type.clone(), true)));
        }
        for (aggregate, accumulator) in self.spec.aggregates.iter().zip(&self.accumulators) {
            let column = accumulator.result(emitted, access, digest)?;
            fields.push(Field::new(&aggregate.name, column.data_type().clone(), true));
            columns.push(column);
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
            .map_err(|error| Error::new(ErrorKind::Serialization, format!("aggregate: its output cannot be assembled: {error}")))
    }
}

impl Operator for Aggregation {
    fn meta(&self, first_epoch: Epoch) -> OperatorMeta {
        let layout = &self.rows.layout;
        let value = self.spec.aggregates.iter().map(|aggregate| {
            let of =
                aggregate.column.map_or_else(|| "*".to_owned(), |column| layout.field(layout.left.start + column).data_type().to_string());
            Column { name: aggregate.name.clone(), data_type: format!("{}({of})", aggregate.function.name()) }
        });
        let mut settings = BTreeMap::from([("timed".to_owned(), Value::from(self.spec.timed))]);
        if let Some(Window { length, slide }) = self.spec.window {
            settings.extend([("length", length), ("slide", slide)].map(|(name, micros)| (name.to_owned(), Value::from(micros))));
        }
        OperatorMeta {
            kind: "aggregate".to_owned(),
            key: layout.columns(layout.keys.clone()),
            value: value.collect(),
            payload: Payload::default(),
            settings,
            first_epoch,
        }
    }

    fn rows(&mut self) -> &mut Rows {
        &mut self.rows
    }

    fn push(&mut self, batch: RecordBatch, partition: Option<i32>) -> Result<()> {
        self.rows.push(batch, partition, &mut self.counts)
    }

    fn run(&mut self, task: &Task, tx: &mut Transaction, worker: &mut dyn Worker) -> Result<Outcome> {
        let states = match self.spec.window {
            None => States::ByKey(task.key_value(GROUPS)?),
            Some(window) => States::ByWindow(task.window(GROUPS)?, window),
        };
        let (items, progress) = (task.key_value(ITEMS)?, task.key_value(PROGRESS)?);
        let before =
            progress.get(tx, STREAM_TIME, |time| time.and_then(|time| time.first_chunk().map(|time| i64::from_be_bytes(*time))))?;
        let (mut groups, mut stream_time) = (Groups::default(), before);
        let assigned = self.assign(&mut groups, &mut stream_time);
        let touched = groups.count();
        if let States::ByWindow(store, window) = &states {
            self.enter_closing(store, *window, tx, &mut groups, (before, stream_time))?;
        }
        let kept = states.read(tx, &groups)?;
        let mut state = self.codec.decode(kept.iter().map(Option::as_deref))?.into_iter();
        for accumulator in &mut self.accumulators {
            let columns: Vec<ArrayRef> = state.by_ref().take(accumulator.state_types().len()).collect();
            accumulator.load(&columns)?;
        }
        let batches: Vec<&RecordBatch> = self.rows.inputs.iter().map(|input| &input.batch).collect();
        let mut access = Access { groups: &groups, items: &items, tx };
        for accumulator in &mut self.accumulators {
            accumulator.update(&batches, &assigned, &mut access)?;
        }
        let columns: Vec<ArrayRef> = self.accumulators.iter().flat_map(|accumulator| accumulator.state()).collect();
        let state = self.codec.encode(&columns)?;
        for group in 0..touched {
            states.write(access.tx, &groups, group, state.get(group))?;
        }
        if stream_time != before
            && let Some(time) = stream_time
        {
            progress.put(access.tx, STREAM_TIME, Some(&time.to_be_bytes()))?;
        }
        let mut digest = Xxh3Default::new();
        for emitted in self.emitted(&groups, touched, stream_time).chunks(BATCH_ROWS) {
            for group in emitted {
                digest.update(&(groups.key(*group).len() as u64).to_be_bytes());
                digest.update(groups.key(*group));
                digest.update(&groups.start(*group).to_be_bytes());
                digest.update(&(state.get(*group).len() as u64).to_be_bytes());
                digest.update(state.get(*group));
            }
            let batch = self.result_columns(&groups, emitted, &mut access, &mut digest)?;
            self.counts.output_rows += batch.num_rows() as u64;
            worker.emit(batch)?;
        }
        self.forget_closed(&groups, &states, &mut access, (before, stream_time))?;
        Ok(Outcome { input: self.rows.digest(), output: Digest::from_hasher(&digest), counts: self.counts })
    }
}

impl Aggregation {
    /// Enters the stored groups whose windows close in this epoch, behind those that its rows touch.
    fn enter_closing(
        &self,
        store: &WindowStore,
        window: Window,
        tx: &mut Transaction,
        groups: &mut Groups,
        (before, now): (Option<i64>, Option<i64>),
    ) -> Result<()> {
        let needed = self.spec.emit == Emit::Close || self.accumulators.iter().any(|accumulator| accumulator.keeps_items());
        if !needed || (self.spec.grace().is_none() && !self.spec.last) {
            return Ok(());
        }
        let grace = self.spec.grace().unwrap_or(0);
        // The latest start of a window that is closed at a time.
        let closed = |time: i64| time.saturating_sub(grace).saturating_sub(window.length);
        let from = before.map_or(i64::MIN, |time| closed(time).saturating_add(1));
        let to = if self.spec.last { i64::MAX } else { now.map_or(i64::MIN, closed) };
        if from > to || before.is_none() {
            return Ok(());
        }
        let mut scan = store.fetch_range(tx, None, None, Timestamp(from), Timestamp(to), false)?;
        scan.for_each(&mut |found, _| {
            groups.enter(found.key, found.start.0);
            true
        })?;
        Ok(())
    }

    /// Deletes what is kept of closed windows beside their states, which the store forgets by itself.
    fn forget_closed(
        &self,
        groups: &Groups,
        states: &States,
        access: &mut Access<'_>,
        (before, now): (Option<i64>, Option<i64>),
    ) -> Result<()> {
        let (States::ByWindow(_, window), Some(grace), Some(now)) = (states, self.spec.grace(), now) else { return Ok(()) };
        if before == Some(now) {
            return Ok(());
        }
        for group in (0..groups.count()).filter(|group| window.is_closed(groups.start(*group), now, grace)) {
            for accumulator in &self.accumulators {
                accumulator.forget(group, access)?;
            }
        }
        Ok(())
    }
}

impl States {
    /// What is kept of the groups; none for a new one.
    fn read(&self, tx: &mut Transaction, groups: &Groups) -> Result<Vec<Option<Vec<u8>>>> {
        let mut kept = vec![None; groups.count()];
        let keys: Vec<&[u8]> = (0..groups.count()).map(|group| groups.key(group)).collect();
        match self {
            Self::ByKey(store) => store.get_batch(tx, &keys, |n, state| kept[n] = state.map(<[u8]>::to_vec))?,
            Self::ByWindow(store, _) => {
                let starts: Vec<Timestamp> = (0..groups.count()).map(|group| Timestamp(groups.start(group))).collect();
                store.fetch_batch(tx, &keys, &starts, |n, state: Option<Stamped<'_>>| kept[n] = state.map(|state| state.value.to_vec()))?;
            }
        }
        Ok(kept)
    }

    fn write(&self, tx: &mut Transaction, groups: &Groups, group: usize, state: &[u8]) -> Result<()> {
        match self {
            Self::ByKey(store) => store.put(tx, groups.key(group), Some(state)),
            Self::ByWindow(store, _) => {
                let start = Timestamp(groups.start(group));
                store.put(tx, WindowPut { key: groups.key(group), value: Some(state), start, timestamp: None })
            }
        }
    }
}
