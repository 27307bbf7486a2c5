//! Joins two streams by key within a window: the right row's time is in
//! `[left - before, left + after]`.
//!
//! With `T` the stream time of both sides together, rows older than `T - grace` are late. A row
//! waits as long as a row that is not late can match it: a left row until `T` is past its time
//! `+ after + grace`, a right row until `T` is past its time `+ before + grace`. If no row has
//! matched it by then and the join keeps unmatched rows of its side, it goes out alone.

use std::collections::BTreeMap;

use arrow_schema::Schema;
use holdfast_core::{Database, Result, StoreSpec, Transaction};
use serde_json::Value;

use super::matching::Matching;
use super::new_rows::{NewRow, NewRows};
use super::spec::{JoinWindowSpec, LEFT, RIGHT};
use super::waiting_side::WaitingSide;
use crate::operator::execution::Operator;
use crate::operator::input::{InputLayout, InputRows, RowOrder, RowPlace, RowsSpec, StoredSides};
use crate::operator::numbering::KeyNumbers;
use crate::operator::outcome::Outcome;
use crate::operator::output::{JoinedRowWriter, JoinedSide, OutputColumns};
use crate::operator::spec::{OperatorSpec, by_time};
use crate::operator::waiting_rows::WaitingRows;
use crate::operator::worker::Worker;
use crate::protocol::Counts;
use crate::protocol::Epoch;
use crate::root::OperatorMeta;

/// The maximum number of keys that are joined at once. Their stored rows are in memory.
const KEYS: u32 = 1_000;

/// One session of a join within a window.
pub struct JoinWindow {
    spec: JoinWindowSpec,
    output: OutputColumns,
    rows: InputRows,
    counts: Counts,
}

/// The input by key.
struct InputByKey {
    new: NewRows,
    /// Rows without a key or a time.
    unmatchable: Vec<RowPlace>,
    stream_time: Option<i64>,
    late: u64,
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
            rows: InputRows::with_payloads(layout, true, true),
            counts: Counts::default(),
        })
    }

    /// Groups the rows that are not late by their keys.
    fn by_key(&self, places: Vec<RowPlace>, mut stream_time: Option<i64>) -> InputByKey {
        let oldest = stream_time.map_or(i64::MIN, |time| time.saturating_sub(self.spec.grace));
        let (mut keys, mut rows) = (KeyNumbers::default(), Vec::with_capacity(places.len()));
        let (mut unmatchable, mut late) = (Vec::new(), 0);
        for place in places {
            let (Some(key), Some(time)) = (self.rows.key(place), self.rows.time(place)) else {
                unmatchable.push(place);
                continue;
            };
            if time < oldest {
                late += 1;
                continue;
            }
            stream_time = stream_time.max(Some(time));
            rows.push((keys.enter(key), NewRow { time, place }));
        }
        InputByKey {
            new: NewRows::new(keys, &rows),
            unmatchable,
            stream_time,
            late,
        }
    }

    /// Sends the rows without a key or a time, if the join keeps unmatched rows of their side.
    /// Returns how many rows it drops.
    fn emit_unmatchable(
        &self,
        places: &[RowPlace],
        writer: &mut JoinedRowWriter<'_>,
    ) -> Result<u64> {
        let mut dropped = 0;
        for place in places.iter().copied() {
            if !self.spec.how.keeps_unmatched(place.is_left()) {
                dropped += 1;
                continue;
            }
            let side = JoinedSide::row(self.rows.time(place), self.rows.payload(place));
            let side = side.at(Some(place));
            emit_alone(
                writer,
                self.rows.key_with_nulls(place),
                side,
                place.is_left(),
            )?;
        }
        Ok(dropped)
    }
}

/// Sends a row without a match.
fn emit_alone(
    writer: &mut JoinedRowWriter<'_>,
    key: &[u8],
    side: JoinedSide<'_>,
    is_left: bool,
) -> Result<()> {
    if is_left {
        writer.push(key, side, JoinedSide::MISSING)
    } else {
        writer.push(key, JoinedSide::MISSING, side)
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

    fn run(
        &mut self,
        db: &Database,
        tx: &mut Transaction,
        worker: &mut dyn Worker,
    ) -> Result<Outcome> {
        let left = WaitingRows::new(db, LEFT)?;
        let right = WaitingRows::new(db, RIGHT)?;
        let before = left.stream_time(tx).max(right.stream_time(tx));
        let places = self.rows.all(RowOrder::All, &mut Counts::default())?;
        let input = self.by_key(places, before);
        let stream_time = input.stream_time.max(self.rows.heartbeat);
        let mut sides = [
            WaitingSide::new(left, &self.spec, true, stream_time),
            WaitingSide::new(right, &self.spec, false, stream_time),
        ];
        let mut counts = Counts {
            late: input.late,
            ..self.counts
        };
        let mut writer = JoinedRowWriter::over_input(&self.output, &self.rows, worker);
        counts.dropped += self.emit_unmatchable(&input.unmatchable, &mut writer)?;
        let matching = Matching {
            spec: &self.spec,
            input: &self.rows,
            new: &input.new,
        };
        let key_count = input.new.key_count();
        for first in (0..key_count).step_by(KEYS as usize) {
            let keys = first..key_count.min(first.saturating_add(KEYS));
            counts.matched += matching.run(tx, keys, &mut sides, &mut writer)?;
        }
        for side in sides {
            side.closed_unmatched(tx, |key, time, payload| {
                let row = JoinedSide::row(Some(time), payload);
                emit_alone(&mut writer, key, row, side.is_left)
            })?;
            side.stage(tx, stream_time)?;
        }
        let outcome = writer.finish(&self.rows, counts)?;
        Ok(outcome.at(stream_time))
    }
}
