//! Aggregation by key, and by windows of event time.
//!
//! An epoch's rows are put into groups (a key, and a window's start where there are windows); what
//! is kept of each group is read in one batch, the rows are added, the groups are written back and
//! their results emitted. `spec.rs` settings · `groups.rs` the groups of an epoch · `windows/`
//! which groups a row is in and which of them make an answer · `accumulator.rs` what a function
//! keeps · `own.rs` the user's own functions, which run in the worker.

mod accumulator;
mod avg;
mod count;
mod decimal;
mod groups;
mod items;
mod own;
mod pick;
mod spec;
mod sum;
mod windows;

pub use spec::{Aggregate, Emit, Function, Spec, Window};

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, TimestampMicrosecondArray};
use arrow_schema::{Field, Schema};
use holdfast_core::{Database, Error, ErrorKind, Result, Transaction};
use serde_json::Value;
use xxhash_rust::xxh3::Xxh3Default;

use super::batch::Filling;
use super::output::times_of;
use super::rows::{Layout, Order, Place, Rows, Sides};
use super::{Counts, Operator, Outcome, Worker};
use crate::codec::row::{EncodedRows, RowCodec};
use crate::protocol::{Digest, Epoch};
use crate::root::{Column, OperatorMeta, type_name};
use accumulator::{Access, Accumulator, Assigned, accumulator};
use groups::Groups;
use windows::{Answer, Answers, Clock, Progress, windows};

/// The store of single values.
const ITEMS: &str = "items";
/// The store of how far time has come, and of what it has closed.
const PROGRESS: &str = "progress";
const STREAM_TIME: &[u8] = b"stream time";

/// One session of an aggregation.
pub struct Aggregation {
    spec: Spec,
    rows: Rows,
    accumulators: Vec<Box<dyn Accumulator>>,
    counts: Counts,
}

impl Aggregation {
    /// An aggregation of input of these columns.
    ///
    /// # Errors
    /// `InvalidValue` or `InvalidType` names the setting or the column that does not fit.
    pub fn new(spec: &Spec, schema: &Schema) -> Result<Self> {
        spec.check()?;
        let layout = Layout::new("aggregate", &spec.rows, schema)?;
        let numbered = spec.aggregates.iter().enumerate();
        let accumulators: Vec<_> = numbered
            .map(|(number, aggregate)| accumulator(number, aggregate, spec, &layout))
            .collect::<Result<_>>()?;
        // What is kept of the user's own functions is known once the worker has said it.
        codec(&accumulators)?;
        Ok(Self {
            spec: spec.clone(),
            rows: Rows::new(layout),
            accumulators,
            counts: Counts::default(),
        })
    }

    /// How the rows come: in order where that matters.
    fn order(&self) -> Order {
        let is_ordered = self.spec.timed
            || self
                .accumulators
                .iter()
                .any(|accumulator| accumulator.needs_order());
        if is_ordered {
            Order::Matchable
        } else {
            Order::Any
        }
    }

    /// The rows, and the greatest time, of those before them too.
    fn places(&mut self, before: Option<i64>) -> Result<(Vec<Place>, Option<i64>)> {
        let order = self.order();
        // The user's own functions get batches of the rows that are in time, which are no parts.
        let places = if self.spec.has_own() {
            self.rows.all(order, &mut self.counts)?
        } else {
            self.rows.keys_and_times(order, &mut self.counts)?
        };
        let inputs = &self.rows.inputs;
        let last = places
            .last()
            .filter(|_| self.spec.timed)
            .and_then(|place| inputs[place.input()].time(place.row()));
        Ok((places, before.max(last)))
    }

    /// Gives the functions the rows: all at once, or a part at a time where they have outgrown
    /// their memory.
    fn update(&mut self, mut assigned: Vec<Assigned>, access: &mut Access<'_>) -> Result<()> {
        let order = self.order();
        let Self {
            rows, accumulators, ..
        } = self;
        if rows.are_in_memory() {
            return accumulators
                .iter_mut()
                .try_for_each(|accumulator| accumulator.update(rows, &assigned, access));
        }
        // Stable: the rows of a part stay in their order.
        assigned.sort_by_key(|row| row.place.input());
        let mut assigned = assigned.into_iter().peekable();
        rows.restart();
        let mut part = 0;
        // Which rows there are was counted when they came first.
        while rows.next_part(order, &mut Counts::default())?.is_some() {
            let of_part: Vec<Assigned> =
                std::iter::from_fn(|| assigned.next_if(|row| row.place.input() == part))
                    .map(|row| Assigned {
                        place: row.place.in_first(),
                        ..row
                    })
                    .collect();
            accumulators
                .iter_mut()
                .try_for_each(|accumulator| accumulator.update(rows, &of_part, access))?;
            part += 1;
        }
        Ok(())
    }

    /// Some rows of the result.
    fn batch(
        &mut self,
        answers: &Answers,
        rows: &[Answer],
        access: &mut Access<'_>,
        digest: &mut Xxh3Default,
    ) -> Result<RecordBatch> {
        let layout = &self.rows.layout;
        let unions: Vec<&[usize]> = rows.iter().map(|answer| answers.groups(answer)).collect();
        let mut fields: Vec<Field> = layout
            .keys
            .clone()
            .map(|key| layout.field(key).clone().with_nullable(true))
            .collect();
        let mut columns = layout.key_codec.decode(
            unions
                .iter()
                .filter_map(|groups| Some(access.groups.key(*groups.first()?))),
        )?;
        if self.spec.window.is_some() {
            let times = |time: fn(&Answer) -> i64| -> ArrayRef {
                times_of(
                    &layout.time_type,
                    rows.iter()
                        .map(|answer| Some(time(answer)))
                        .collect::<TimestampMicrosecondArray>(),
                )
            };
            columns.extend([times(|answer| answer.start), times(|answer| answer.end)]);
            fields.extend(
                ["window_start", "window_end"]
                    .map(|name| Field::new(name, layout.time_type.clone(), true)),
            );
        }
        for (aggregate, accumulator) in self.spec.aggregates.iter().zip(&mut self.accumulators) {
            let column = accumulator.result(&unions, access, digest)?;
            fields.push(Field::new(
                &aggregate.name,
                column.data_type().clone(),
                true,
            ));
            columns.push(column);
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(|error| {
            Error::new(
                ErrorKind::Serialization,
                format!("aggregate: its output cannot be assembled: {error}"),
            )
        })
    }

    /// How many of these answers, the first at least, make a batch.
    fn fitting(
        &mut self,
        answers: &Answers,
        rows: &[Answer],
        state: &EncodedRows,
        access: &mut Access<'_>,
    ) -> Result<usize> {
        let (mut count, mut filling) = (0, Filling::default());
        for answer in rows {
            let mut bytes: usize = 0;
            for group in answers.groups(answer) {
                bytes =
                    bytes.saturating_add(access.groups.key(*group).len() + state.get(*group).len());
                for accumulator in &mut self.accumulators {
                    bytes = bytes.saturating_add(accumulator.item_bytes(*group, access)?);
                }
            }
            if !filling.takes(bytes) {
                break;
            }
            count += 1;
        }
        Ok(count)
    }

    /// Hands the answers to the worker, in order; returns their digest.
    fn emit(
        &mut self,
        answers: &Answers,
        state: &EncodedRows,
        access: &mut Access<'_>,
    ) -> Result<Digest> {
        let mut digest = Xxh3Default::new();
        let mut rest = &answers.rows[..];
        while !rest.is_empty() {
            let rows;
            (rows, rest) = rest.split_at(self.fitting(answers, rest, state, access)?);
            for answer in rows {
                let groups = answers.groups(answer);
                digest.update(&answer.start.to_be_bytes());
                digest.update(&answer.end.to_be_bytes());
                digest.update(&(groups.len() as u64).to_be_bytes());
                for group in groups {
                    for bytes in [access.groups.key(*group), state.get(*group)] {
                        digest.update(&(bytes.len() as u64).to_be_bytes());
                        digest.update(bytes);
                    }
                }
            }
            let batch = self.batch(answers, rows, access, &mut digest)?;
            self.counts.output_rows += batch.num_rows() as u64;
            if self.spec.has_own() {
                own::emit(access.worker, batch)?
            } else {
                access.worker.emit(batch)?
            }
        }
        let digest = Digest::from_hasher(&digest);
        if self.spec.has_own() {
            own::end(access.worker)
        } else {
            Ok(digest)
        }
    }
}

/// How what is kept of a group becomes bytes.
fn codec(accumulators: &[Box<dyn Accumulator>]) -> Result<RowCodec> {
    let types = accumulators
        .iter()
        .flat_map(|accumulator| accumulator.state_types());
    let fields: Vec<Field> = types
        .map(|data_type| Field::new("state", data_type, true))
        .collect();
    RowCodec::new(&fields)
}

impl Operator for Aggregation {
    fn meta(&self, first_epoch: Epoch) -> OperatorMeta {
        let layout = &self.rows.layout;
        let value = self.spec.aggregates.iter().map(|aggregate| {
            let of = match (&aggregate.declared, aggregate.column) {
                (Some(declared), _) => declared.clone(),
                (None, Some(column)) => {
                    type_name(layout.field(layout.left.start + column).data_type())
                }
                (None, None) => "*".to_owned(),
            };
            // That of intervals was kept as a float before.
            let exact = if aggregate.function == Function::Avg && of.starts_with("Duration") {
                "exact "
            } else {
                ""
            };
            Column {
                name: aggregate.name.clone(),
                data_type: format!("{exact}{}({of})", aggregate.function.name()),
            }
        });
        let windows = self.spec.window.map_or_else(Vec::new, Window::settings);
        let mut settings = BTreeMap::from([("timed".to_owned(), Value::from(self.spec.timed))]);
        settings.extend(
            windows
                .into_iter()
                .map(|(name, micros)| (name.to_owned(), Value::from(micros))),
        );
        OperatorMeta {
            value: value.collect(),
            ..layout.meta("aggregate", Sides::default(), settings, first_epoch)
        }
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
        if self.spec.has_own() {
            let states = own::begin(worker)?;
            self.accumulators
                .iter_mut()
                .try_for_each(|accumulator| accumulator.begin(&states))?;
        }
        let codec = codec(&self.accumulators)?;
        let (items, progress) = (db.key_value(ITEMS)?, db.key_value(PROGRESS)?);
        let before = progress.get(tx, STREAM_TIME, |progress| {
            progress.and_then(Progress::decode)
        })?;
        let (places, stream_time) = self.places(before.map(|before| before.time))?;
        let clock = Clock::new(&self.spec, before, stream_time.max(self.rows.heartbeat));
        let mut windows = windows(&self.spec, db, clock)?;
        let keeps_items = self
            .accumulators
            .iter()
            .any(|accumulator| accumulator.keeps_items());
        if clock.sweeps() {
            windows.sweep(tx)?;
        }
        if clock.has_skipped() && keeps_items && self.spec.window.is_some() {
            items::sweep(&items, &*windows, tx)?;
        }
        let mut groups = Groups::default();
        let assigned = windows.assign(&self.rows, &places, tx, &mut groups, &mut self.counts)?;
        let mut is_touched = vec![false; groups.count()];
        assigned
            .iter()
            .for_each(|row| is_touched[row.group as usize] = true);
        let touched: Vec<usize> = (0..groups.count())
            .filter(|group| is_touched[*group])
            .collect();
        windows.enter_stored(keeps_items, tx, &mut groups)?;
        let kept = windows.read(tx, &groups)?;
        let mut types = self
            .accumulators
            .iter()
            .flat_map(|accumulator| accumulator.state_types());
        if self.spec.has_own() && types.any(|state| state.primitive_width().is_none()) {
            own::check_size(kept.iter().flatten().map(Vec::len).sum())?;
        }
        let mut state = codec.decode(kept.iter().map(Option::as_deref))?.into_iter();
        let mut access = Access {
            groups: &groups,
            items: &items,
            tx,
            worker,
        };
        for accumulator in &mut self.accumulators {
            let columns: Vec<ArrayRef> = state
                .by_ref()
                .take(accumulator.state_types().len())
                .collect();
            accumulator.load(&columns)?;
            accumulator.merge(windows.merges(), &mut access)?;
        }
        self.update(assigned, &mut access)?;
        let columns = self
            .accumulators
            .iter()
            .map(|accumulator| accumulator.state())
            .collect::<Result<Vec<_>>>()?
            .concat();
        let state = codec.encode(&columns)?;
        windows.write(access.tx, &groups, &touched, &state)?;
        if let Some(after) = clock.progress().filter(|after| before != Some(*after)) {
            progress.put(access.tx, STREAM_TIME, Some(&after.encode()))?;
        }
        let mut answers = windows.answers(&groups, &touched);
        answers.sort(&groups);
        let output = self.emit(&answers, &state, &mut access)?;
        if keeps_items {
            for group in windows.gone(&groups) {
                self.accumulators
                    .iter()
                    .try_for_each(|accumulator| accumulator.forget(group, &mut access))?;
            }
        }
        Ok(Outcome {
            input: self.rows.digest(),
            output,
            counts: self.counts,
        })
    }
}
