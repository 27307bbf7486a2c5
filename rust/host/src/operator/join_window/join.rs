//! Joins two streams by key within a window: the right row's time is in
//! `[left - before, left + after]`.
//!
//! With `T` the stream time of both sides together, rows older than `T - grace` are late. A row
//! waits as long as a row that is not late can match it: a left row until `T` is past its time
//! `+ after + grace`, a right row until `T` is past its time `+ before + grace`. If no row has
//! matched it by then and the join keeps unmatched rows of its side, it goes out alone.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use holdfast_core::{Database, Result, StoreSpec, Transaction};
use serde_json::Value;

use super::epoch_sides::EpochSides;
use super::held_key::HeldKey;
use super::matching::Matching;
use super::new_rows::{NewRow, NewRows};
use super::spec::{JoinWindowSpec, LEFT, RIGHT};
use crate::operator::execution::Operator;
use crate::operator::input::{
    InputLayout, InputRows, Intake, RowOrder, RowPlace, RowsSpec, StoredSides,
};
use crate::operator::numbering::KeyNumbers;
use crate::operator::outcome::Outcome;
use crate::operator::output::{JoinedRowWriter, JoinedSide, OutputColumns};
use crate::operator::spec::{OperatorSpec, by_time};
use crate::operator::worker::Worker;
use crate::protocol::Counts;
use crate::protocol::Epoch;
use crate::root::OperatorMeta;

/// The maximum number of keys that are joined at once. Their waiting rows are in memory.
const KEYS: u32 = 1_000;

/// One session of a join within a window.
pub struct JoinWindow {
    spec: JoinWindowSpec,
    output: OutputColumns,
    rows: InputRows,
    counts: Counts,
    /// The greatest time of a row with a key.
    newest: Option<i64>,
}

impl OperatorSpec for JoinWindowSpec {
    fn start(&self, schema: &Schema) -> Result<Box<dyn Operator>> {
        Ok(Box::new(JoinWindow::new(self, schema)?))
    }

    fn rows(&self) -> &RowsSpec {
        &self.rows
    }

    fn stores(&self) -> Vec<StoreSpec> {
        let store = |name, is_left| {
            let retention = self
                .wait(is_left)
                .saturating_add(self.grace)
                .saturating_add(1);
            StoreSpec::new(name, by_time(retention, 0))
        };
        vec![store(LEFT, true), store(RIGHT, false)]
    }
}

impl JoinWindow {
    fn new(spec: &JoinWindowSpec, schema: &Schema) -> Result<Self> {
        spec.check()?;
        let layout = InputLayout::new("join_window", &spec.rows, schema)?;
        let output = OutputColumns::new("join_window", &spec.output, &layout)?;
        Ok(Self {
            spec: spec.clone(),
            output,
            rows: InputRows::with_payloads(layout, true, true).spilling_by_key(),
            counts: Counts::default(),
            newest: None,
        })
    }

    /// Groups the rows of a part by their keys. Late rows are only counted, and rows without a key
    /// or a time go out at once.
    fn take(
        &self,
        places: Vec<RowPlace>,
        oldest: i64,
        counts: &mut Counts,
        writer: &mut JoinedRowWriter<'_>,
    ) -> Result<NewRows> {
        let (mut keys, mut rows) = (KeyNumbers::default(), Vec::with_capacity(places.len()));
        for place in places {
            let (Some(key), Some(time)) = (self.rows.key(place), self.rows.time(place)) else {
                self.pass_on(place, counts, writer)?;
                continue;
            };
            if time < oldest {
                counts.late += 1;
                continue;
            }
            rows.push((keys.enter(key), NewRow { time, place }));
        }
        Ok(NewRows::new(keys, &rows))
    }

    /// Sends a row without a key or a time, if the join keeps unmatched rows of its side. Otherwise
    /// it is counted as dropped.
    fn pass_on(
        &self,
        place: RowPlace,
        counts: &mut Counts,
        writer: &mut JoinedRowWriter<'_>,
    ) -> Result<()> {
        if !self.spec.how.keeps_unmatched(place.is_left()) {
            counts.dropped += 1;
            return Ok(());
        }
        let side = JoinedSide::row(self.rows.time(place), self.rows.payload(place));
        let side = side.at(Some(place));
        writer.push_alone(self.rows.key_with_nulls(place), side, place.is_left())
    }

    /// Joins the new rows of some keys.
    fn join_keys(
        &self,
        tx: &mut Transaction,
        new: &NewRows,
        mut keys: Range<u32>,
        sides: &mut EpochSides,
        writer: &mut JoinedRowWriter<'_>,
    ) -> Result<u64> {
        let matching = Matching {
            spec: &self.spec,
            input: &self.rows,
            new,
        };
        let (mut matched, mut most) = (0, KEYS);
        while !keys.is_empty() {
            let first = keys.start;
            let now = first..keys.end.min(first.saturating_add(most));
            let (pairs, end) = matching.run(tx, now, &mut sides.both, writer)?;
            matched += pairs;
            keys.start = end;
            if end == first {
                let mut key = HeldKey::new(new.key(first), self.rows.folder());
                key.add(&self.rows, new, first)?;
                matched += key.join(&self.spec, tx, &mut sides.both, writer)?;
                keys.start += 1;
            }
            // The rows of the next keys are about as large.
            most = KEYS.min(2 * (keys.start - first));
        }
        Ok(matched)
    }

    /// Joins the rows of an epoch that are all in memory.
    fn join_all(
        &self,
        tx: &mut Transaction,
        places: Vec<RowPlace>,
        mut sides: EpochSides,
        worker: &mut dyn Worker,
    ) -> Result<Outcome> {
        let mut counts = self.counts;
        sides.limit_memory(self.rows.room(), &self.rows);
        let mut writer = JoinedRowWriter::over_input(&self.output, &self.rows, worker);
        let new = self.take(places, sides.oldest, &mut counts, &mut writer)?;
        let keys = 0..new.key_count();
        counts.matched += self.join_keys(tx, &new, keys, &mut sides, &mut writer)?;
        sides.close(tx, &mut writer)?;
        writer.finish(&self.rows, counts)
    }

    /// Joins the rows of an epoch that have spilled, by key. The last key of a part may have more
    /// rows in the next one.
    fn join_parts(
        &mut self,
        tx: &mut Transaction,
        first: Vec<RowPlace>,
        mut sides: EpochSides,
        worker: &mut dyn Worker,
    ) -> Result<Outcome> {
        let mut counts = self.counts;
        let layout = Arc::clone(&self.rows.layout);
        let mut writer = JoinedRowWriter::new(&self.output, &layout, worker);
        sides.limit_memory(self.rows.spare_memory() / 4, &self.rows);
        let (mut next, mut held) = (Some(first), None::<HeldKey>);
        while let Some(part) = next {
            writer.start_part(&self.rows)?;
            let new = self.take(part, sides.oldest, &mut counts, &mut writer)?;
            let mut keys = 0..new.key_count();
            if let Some(key) = &mut held
                && !keys.is_empty()
                && key.is(new.key(0))
            {
                key.add(&self.rows, &new, 0)?;
                keys.start = 1;
            }
            if !keys.is_empty() {
                if let Some(key) = held.take() {
                    counts.matched += key.join(&self.spec, tx, &mut sides.both, &mut writer)?;
                }
                let last = keys.end - 1;
                let whole = keys.start..last;
                counts.matched += self.join_keys(tx, &new, whole, &mut sides, &mut writer)?;
                let mut key = HeldKey::new(new.key(last), self.rows.folder());
                key.add(&self.rows, &new, last)?;
                held = Some(key);
            }
            next = self.rows.next_part(RowOrder::All, &mut counts)?;
        }
        if let Some(key) = held {
            counts.matched += key.join(&self.spec, tx, &mut sides.both, &mut writer)?;
        }
        sides.close(tx, &mut writer)?;
        writer.finish(&self.rows, counts)
    }
}

impl Operator for JoinWindow {
    fn meta(&self, first_epoch: Epoch) -> OperatorMeta {
        let JoinWindowSpec {
            before,
            after,
            grace,
            how,
            ..
        } = &self.spec;
        let spans = [("before", *before), ("after", *after), ("grace", *grace)];
        let mut settings: BTreeMap<String, Value> = spans
            .into_iter()
            .map(|(name, span)| (name.to_owned(), Value::from(span)))
            .collect();
        settings.insert(
            "how".to_owned(),
            serde_json::to_value(how).unwrap_or_default(),
        );
        let layout = &self.rows.layout;
        layout.meta("join_window", StoredSides::BOTH, settings, first_epoch)
    }

    fn input(&mut self) -> (&mut InputRows, &mut Counts) {
        (&mut self.rows, &mut self.counts)
    }

    fn push(&mut self, batch: RecordBatch, intake: &Intake) -> Result<()> {
        // The newest time must be known before the first row is joined, when some rows may be on
        // disk.
        self.newest = self.newest.max(self.rows.layout.newest_time(&batch));
        self.rows.push(batch, intake, &mut self.counts)
    }

    fn run(
        &mut self,
        db: &Database,
        tx: &mut Transaction,
        worker: &mut dyn Worker,
    ) -> Result<Outcome> {
        let newest = self.newest.max(self.rows.heartbeat);
        let sides = EpochSides::new(db, tx, &self.spec, newest)?;
        let stream_time = sides.stream_time;
        let first = self.rows.next_part(RowOrder::All, &mut self.counts)?;
        let first = first.unwrap_or_default();
        let outcome = if self.rows.are_in_memory() {
            self.join_all(tx, first, sides, worker)?
        } else {
            self.join_parts(tx, first, sides, worker)?
        };
        Ok(outcome.at(stream_time))
    }
}
