//! One session of an aggregation.
//!
//! The session assigns an epoch's rows to groups. A group is a key and, if there are windows, a
//! window's start (with sliding windows, a row's time). The session reads the stored states of
//! the groups in one batch, adds the rows, writes the states back and emits the results.

use std::collections::BTreeMap;

use arrow_array::ArrayRef;
use arrow_schema::{Field, Schema};
use holdfast_core::{Database, Result, StoreSpec, Transaction};
use serde_json::Value;

use super::functions::{Access, Accumulator, accumulator, check_state_size, user_worker};
use super::groups::{Assigned, GroupMerge, Groups};
use super::item_sweep::sweep_items;
use super::recorded_function::RecordedFunction;
use super::result_output::ResultOutput;
use super::spec::{AggregateSpec, GROUPS, ITEMS, PROGRESS, STREAM_TIME};
use super::window_spec::Window;
use super::windows::{TimeProgress, WindowClock, open_windows};
use crate::codec::row::RowCodec;
use crate::operator::execution::Operator;
use crate::operator::input::{
    InputBatch, InputLayout, InputRows, RowOrder, RowPlace, RowsSpec, StoredSides,
};
use crate::operator::outcome::Outcome;
use crate::operator::spec::OperatorSpec;
use crate::operator::worker::Worker;
use crate::protocol::Counts;
use crate::protocol::Epoch;
use crate::root::OperatorMeta;

/// One session of an aggregation.
pub struct Aggregation {
    spec: AggregateSpec,
    rows: InputRows,
    accumulators: Vec<Box<dyn Accumulator>>,
    counts: Counts,
}

impl OperatorSpec for AggregateSpec {
    fn start(&self, schema: &Schema) -> Result<Box<dyn Operator>> {
        Ok(Box::new(Aggregation::new(self, schema)?))
    }

    fn rows(&self) -> &RowsSpec {
        &self.rows
    }

    fn stores(&self) -> Vec<StoreSpec> {
        self.store_specs()
    }
}

impl Aggregation {
    fn new(spec: &AggregateSpec, schema: &Schema) -> Result<Self> {
        spec.check()?;
        let layout = InputLayout::new("aggregate", &spec.rows, schema)?;
        spec.aggregates
            .iter()
            .try_for_each(|aggregate| RecordedFunction::check(aggregate, &layout))?;
        let numbered = spec.aggregates.iter().enumerate();
        let accumulators: Vec<_> = numbered
            .map(|(number, aggregate)| accumulator(number, aggregate, spec, &layout))
            .collect::<Result<_>>()?;
        // The state types of the user's functions are not known yet: the worker sends them.
        codec(&accumulators)?;
        let layout = if need_order(&accumulators) {
            layout
        } else {
            layout.without_content()
        };
        Ok(Self {
            spec: spec.clone(),
            rows: InputRows::new(layout),
            accumulators,
            counts: Counts::default(),
        })
    }

    /// Returns the order in which the rows are processed. They are sorted if the windows are made
    /// from rows in the order of time, or if the result depends on the order of the rows.
    fn order(&self) -> RowOrder {
        let is_ordered = matches!(self.spec.window, Some(Window::Session { .. }))
            || need_order(&self.accumulators);
        if is_ordered {
            RowOrder::Matchable
        } else {
            RowOrder::Any
        }
    }

    /// Returns where the rows are, and the greatest time of these rows and of all epochs before.
    fn places(&mut self, before: Option<i64>) -> Result<(Vec<RowPlace>, Option<i64>)> {
        let order = self.order();
        let places = self.rows.keys_and_times(order, &mut self.counts)?;
        let inputs = self.rows.inputs.iter().filter(|_| self.spec.timed);
        Ok((
            places,
            before.max(inputs.filter_map(InputBatch::last_time).max()),
        ))
    }

    /// Loads the stored states into the functions, and merges groups.
    fn load(
        &mut self,
        codec: &RowCodec,
        stored: &[Option<Vec<u8>>],
        merges: &[GroupMerge],
        access: &mut Access<'_>,
    ) -> Result<()> {
        let mut types = self
            .accumulators
            .iter()
            .flat_map(|accumulator| accumulator.state_types());
        if self.spec.has_user_functions() && types.any(|state| state.primitive_width().is_none()) {
            check_state_size(stored.iter().flatten().map(Vec::len).sum())?;
        }
        let states = codec.decode(stored.iter().map(Option::as_deref))?;
        let mut states = states.into_iter();
        for accumulator in &mut self.accumulators {
            let columns: Vec<ArrayRef> = states
                .by_ref()
                .take(accumulator.state_types().len())
                .collect();
            accumulator.load(&columns)?;
            accumulator.merge(merges, access)?;
        }
        Ok(())
    }

    /// Passes the rows to the functions, all at once. If the rows have outgrown their memory, it
    /// passes them a part at a time.
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
        // The sort is stable: the rows of a part stay in their order.
        assigned.sort_by_key(|row| row.place.input());
        let mut assigned = assigned.into_iter().peekable();
        rows.restart();
        let mut part = 0;
        // The rows were counted when they were first read.
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

    fn delete_items(&self, group: usize, access: &mut Access<'_>) -> Result<()> {
        let mut accumulators = self.accumulators.iter();
        accumulators.try_for_each(|accumulator| accumulator.delete_items(group, access))
    }
}

/// Whether the result of a function depends on the order of the rows.
fn need_order(accumulators: &[Box<dyn Accumulator>]) -> bool {
    accumulators
        .iter()
        .any(|accumulator| accumulator.needs_order())
}

/// Returns the groups that have new rows, by start.
///
/// The order of the rows is not that of their times if no function needs it. If a group were stored
/// after a much later one, the retention of the store could refuse it.
fn touched_groups(assigned: &[Assigned], groups: &Groups) -> Vec<usize> {
    let mut is_touched = vec![false; groups.count()];
    assigned
        .iter()
        .for_each(|row| is_touched[row.group as usize] = true);
    let mut touched: Vec<usize> = (0..groups.count())
        .filter(|group| is_touched[*group])
        .collect();
    touched.sort_by_key(|group| groups.start(*group));
    touched
}

/// Returns the codec of a group's state.
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
        let aggregates = self.spec.aggregates.iter();
        let value = aggregates.map(|aggregate| RecordedFunction::write(aggregate, layout));
        let windows = self.spec.window.map_or_else(Vec::new, Window::settings);
        let mut settings = BTreeMap::from([("timed".to_owned(), Value::from(self.spec.timed))]);
        settings.extend(
            windows
                .into_iter()
                .map(|(name, micros)| (name.to_owned(), Value::from(micros))),
        );
        OperatorMeta {
            value: value.collect(),
            ..layout.meta("aggregate", StoredSides::NONE, settings, first_epoch)
        }
    }

    fn input(&mut self) -> (&mut InputRows, &mut Counts) {
        (&mut self.rows, &mut self.counts)
    }

    fn run(
        &mut self,
        db: &Database,
        tx: &mut Transaction,
        worker: &mut dyn Worker,
    ) -> Result<Outcome> {
        if self.spec.has_user_functions() {
            let states = user_worker::begin(worker)?;
            self.accumulators
                .iter_mut()
                .try_for_each(|accumulator| accumulator.begin(&states))?;
        }
        let codec = codec(&self.accumulators)?;
        let (items, progress) = (db.key_value(ITEMS)?, db.key_value(PROGRESS)?);
        let before = progress.get(tx, STREAM_TIME, |progress| {
            progress.and_then(TimeProgress::decode)
        })?;
        let (places, stream_time) = self.places(before.map(|before| before.time))?;
        let clock = WindowClock::new(&self.spec, before, stream_time.max(self.rows.heartbeat));
        let mut windows = open_windows(&self.spec, db, clock)?;
        let has_items = self
            .accumulators
            .iter()
            .any(|accumulator| accumulator.has_items());
        if clock.sweeps() {
            windows.sweep(tx)?;
        }
        let group_time = db.stream_time(GROUPS, tx)?.map(|time| time.0);
        let is_outdated = clock.sweeps() || clock.has_skipped() || clock.has_expired(group_time);
        if is_outdated && has_items && self.spec.window.is_some() {
            sweep_items(&items, &*windows, tx)?;
        }
        let mut groups = Groups::default();
        let assigned = windows.assign(&self.rows, &places, tx, &mut groups, &mut self.counts)?;
        let touched = touched_groups(&assigned, &groups);
        if has_items {
            windows.expire(group_time, &groups, tx, &mut |expired, tx| {
                let mut access = Access {
                    groups: expired,
                    items: &items,
                    tx,
                    worker: &mut *worker,
                };
                (0..expired.count()).try_for_each(|group| self.delete_items(group, &mut access))
            })?;
        }
        windows.add_stored(has_items, tx, &mut groups)?;
        let stored = windows.read(tx, &groups)?;
        let mut access = Access {
            groups: &groups,
            items: &items,
            tx,
            worker,
        };
        for group in windows.replacing() {
            self.delete_items(group, &mut access)?;
        }
        self.load(&codec, &stored, windows.merges(), &mut access)?;
        self.update(assigned, &mut access)?;
        let mut accumulators = self.accumulators.iter_mut();
        accumulators.try_for_each(|accumulator| accumulator.finish(&mut access))?;
        let columns = self
            .accumulators
            .iter()
            .map(|accumulator| accumulator.state())
            .collect::<Result<Vec<_>>>()?
            .concat();
        let state = codec.encode(&columns)?;
        windows.write(access.tx, &groups, &touched, &state)?;
        let of_groups = db.stream_time(GROUPS, access.tx)?;
        let retained = of_groups.map_or(i64::MIN, |time| clock.retained_at(time.0));
        let after = clock.progress(retained);
        if let Some(after) = after.filter(|after| before != Some(*after)) {
            progress.put(access.tx, STREAM_TIME, Some(&after.encode()))?;
        }
        let mut results = windows.results(&groups, &touched);
        results.sort(&groups);
        let output = ResultOutput {
            spec: &self.spec,
            layout: &self.rows.layout,
            accumulators: &mut self.accumulators,
            results: &results,
            state: &state,
        };
        let (output, output_rows) = output.emit(&mut access)?;
        self.counts.output_rows = output_rows;
        if has_items {
            for group in windows.finished(&groups, retained) {
                self.delete_items(group, &mut access)?;
            }
        }
        Ok(Outcome {
            input: self.rows.digest(),
            output,
            counts: self.counts,
            stream_time: clock.now(),
        })
    }
}
