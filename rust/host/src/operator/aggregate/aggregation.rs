//! One session of an aggregation.
//!
//! The session assigns an epoch's rows to groups. A group is a key and, if there are windows, a
//! window's start (with sliding windows, a row's time). The session reads the stored states of
//! the groups in one batch, adds the rows, writes the states back and emits the results.

use std::collections::BTreeMap;

use arrow_schema::Schema;
use holdfast_core::{Database, Result, StoreSpec, Transaction};
use serde_json::Value;

use super::epoch_in_parts::EpochInParts;
use super::functions::{Access, Accumulators, user_worker};
use super::groups::{Assigned, Groups};
use super::item_sweep::sweep_items;
use super::recorded_function::RecordedFunction;
use super::result_output::{GroupResults, ResultOutput};
use super::spec::{AggregateSpec, GROUPS, ITEMS, PROGRESS, STREAM_TIME};
use super::window_spec::Window;
use super::windows::{TimeProgress, WindowClock, Windows, open_windows};
use crate::operator::execution::Operator;
use crate::operator::input::{InputLayout, InputRows, RowOrder, RowsSpec, StoredSides};
use crate::operator::outcome::Outcome;
use crate::operator::spec::OperatorSpec;
use crate::operator::worker::Worker;
use crate::protocol::{Counts, Digest, Epoch};
use crate::root::OperatorMeta;

/// One session of an aggregation.
pub struct Aggregation {
    spec: AggregateSpec,
    rows: InputRows,
    accumulators: Accumulators,
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
        let accumulators = Accumulators::new(spec, &layout)?;
        let layout = if accumulators.need_order() {
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
            || self.accumulators.need_order();
        if is_ordered {
            RowOrder::Matchable
        } else {
            RowOrder::Any
        }
    }

    /// Whether the groups are processed in parts, because the rows or the groups that close do not
    /// fit in memory. The result of each group must depend on this group alone: sliding windows
    /// share groups, and sessions merge them.
    fn is_in_parts(&mut self, windows: &mut dyn Windows, tx: &mut Transaction) -> Result<bool> {
        let are_independent = matches!(self.spec.window, None | Some(Window::Hopping(_)));
        if !are_independent {
            return Ok(false);
        }
        let rows = &mut self.rows;
        Ok(rows.have_spilled() || !windows.find_closing(tx, &mut |bytes| rows.hold(bytes))?)
    }

    /// The outcome of a result: its digest, and the number of its rows.
    fn outcome(&self, (output, output_rows): (Digest, u64), clock: &WindowClock) -> Outcome {
        Outcome {
            input: self.rows.digest(),
            output,
            counts: Counts {
                output_rows,
                ..self.counts
            },
            stream_time: clock.now(),
        }
    }

    /// Finds the groups of the rows. Returns the first part of the rows with their groups;
    /// [`Self::next_part`] returns the others.
    fn first_part(
        &mut self,
        windows: &mut dyn Windows,
        tx: &mut Transaction,
        groups: &mut Groups,
    ) -> Result<Option<Vec<Assigned>>> {
        let (order, mut counts, mut all) = (self.order(), self.counts, None);
        while let Some(part) = self.rows.next_part(order, &mut counts)? {
            let assigned = windows.assign(&self.rows, &part, groups, &mut counts);
            all = self.rows.are_in_memory().then_some(assigned);
        }
        windows.end_pass(tx, groups)?;
        let Some(mut all) = all else {
            // The second pass counts the rows again.
            self.rows.restart();
            return self.next_part(windows, groups);
        };
        windows.settle(&mut all, &mut counts);
        self.counts = counts;
        Ok(Some(all))
    }

    /// Returns the next part of the rows with their groups, once all groups are known. There is
    /// only one part if all rows are in memory.
    fn next_part(
        &mut self,
        windows: &mut dyn Windows,
        groups: &mut Groups,
    ) -> Result<Option<Vec<Assigned>>> {
        let order = self.order();
        let Some(part) = self.rows.next_part(order, &mut self.counts)? else {
            return Ok(None);
        };
        let mut assigned = windows.assign(&self.rows, &part, groups, &mut self.counts);
        windows.settle(&mut assigned, &mut self.counts);
        Ok(Some(assigned))
    }
}

/// Returns the groups that have new rows, by start.
///
/// The order of the rows is not that of their times if no function needs it. If a group were stored
/// after a much later one, the retention of the store could refuse it.
fn touched_groups(is_touched: &[bool], groups: &Groups) -> Vec<usize> {
    let mut touched: Vec<usize> = (0..is_touched.len())
        .filter(|group| is_touched[*group])
        .collect();
    touched.sort_by_key(|group| groups.start(*group));
    touched
}

/// Stores the stream time, and what it has closed, after the groups are written. `before` is what
/// is stored. Returns the earliest time of a group that the store then has.
fn store_progress(
    db: &Database,
    tx: &mut Transaction,
    clock: &WindowClock,
    before: Option<TimeProgress>,
) -> Result<i64> {
    let of_groups = db.stream_time(GROUPS, tx)?;
    let retained = of_groups.map_or(i64::MIN, |time| clock.retained_at(time.0));
    let after = clock.progress(retained);
    if let Some(after) = after.filter(|after| before != Some(*after)) {
        let progress = db.key_value(PROGRESS)?;
        progress.put(tx, STREAM_TIME, Some(&after.encode()))?;
    }
    Ok(retained)
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
            self.accumulators.begin(&user_worker::begin(worker)?)?;
        }
        let (items, progress) = (db.key_value(ITEMS)?, db.key_value(PROGRESS)?);
        let before = progress.get(tx, STREAM_TIME, |progress| {
            progress.and_then(TimeProgress::decode)
        })?;
        let last = self.rows.last_time.filter(|_| self.spec.timed);
        let stream_time = before.map(|before| before.time).max(last);
        let clock = WindowClock::new(&self.spec, before, stream_time.max(self.rows.heartbeat));
        let mut windows = open_windows(&self.spec, db, clock)?;
        let has_items = self.accumulators.have_items();
        if clock.sweeps() {
            windows.sweep(tx)?;
        }
        let group_time = db.stream_time(GROUPS, tx)?.map(|time| time.0);
        let is_outdated = clock.sweeps() || clock.has_skipped() || clock.has_expired(group_time);
        if is_outdated && has_items && self.spec.window.is_some() {
            sweep_items(&items, &*windows, tx)?;
        }
        if self.is_in_parts(&mut *windows, tx)? {
            let order = self.order();
            let mut epoch = EpochInParts {
                spec: &self.spec,
                rows: &mut self.rows,
                counts: &mut self.counts,
                accumulators: &mut self.accumulators,
                windows: &mut *windows,
                items: &items,
            };
            let mut groups = epoch.write(order, group_time, db, tx, worker)?;
            let retained = store_progress(db, tx, &clock, before)?;
            let output = epoch.emit(db, &mut groups, retained, tx, worker)?;
            return Ok(self.outcome(output, &clock));
        }
        let mut groups = Groups::default();
        let mut next = self.first_part(&mut *windows, tx, &mut groups)?;
        if has_items {
            windows.expire(group_time, &groups, tx, &mut |expired, tx| {
                let mut access = Access {
                    groups: expired,
                    items: &items,
                    tx,
                    worker: &mut *worker,
                };
                (0..expired.count())
                    .try_for_each(|group| self.accumulators.delete_items(group, &mut access))
            })?;
        }
        windows.add_stored(has_items, tx, &mut groups)?;
        let stored = windows.read(tx, &groups)?;
        let mut access = Access {
            groups: &groups,
            items: &items,
            tx: &mut *tx,
            worker: &mut *worker,
        };
        for group in windows.replacing() {
            self.accumulators.delete_items(group, &mut access)?;
        }
        self.accumulators.load_owned(stored)?;
        self.accumulators.merge(windows.merges(), &mut access)?;
        let mut is_touched = vec![false; groups.count()];
        while let Some(assigned) = next {
            let mut access = Access {
                groups: &groups,
                items: &items,
                tx: &mut *tx,
                worker: &mut *worker,
            };
            self.accumulators
                .update(&self.rows, &assigned, &mut access)?;
            let touched = assigned.iter().map(|row| row.group as usize);
            touched.for_each(|group| is_touched[group] = true);
            next = self.next_part(&mut *windows, &mut groups)?;
        }
        let touched = touched_groups(&is_touched, &groups);
        let mut access = Access {
            groups: &groups,
            items: &items,
            tx,
            worker,
        };
        self.accumulators.finish(&mut access)?;
        let state = self.accumulators.states()?;
        windows.write(access.tx, &groups, &touched, &state)?;
        let retained = store_progress(db, access.tx, &clock, before)?;
        let mut results = windows.results(&groups, &touched);
        results.sort(&groups);
        let mut of_groups = GroupResults {
            accumulators: &mut self.accumulators,
            results: &results,
            state: &state,
        };
        let mut output = ResultOutput::new(&self.spec, &self.rows.layout);
        output.send_all(&mut of_groups, &mut access)?;
        let output = output.finish(access.worker)?;
        if has_items {
            for group in windows.finished(&groups, retained) {
                self.accumulators.delete_items(group, &mut access)?;
            }
        }
        Ok(self.outcome(output, &clock))
    }
}
