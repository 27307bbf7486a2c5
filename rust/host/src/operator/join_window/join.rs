//! Joins two streams by key within a window: the right row's time is in
//! `[left - before, left + after]`.
//!
//! With `T` the stream time of both sides together, rows older than `T - grace` are late. A row
//! waits as long as a row that is not late can match it: a left row until `T` is past its time
//! `+ after + grace`, a right row until `T` is past its time `+ before + grace`. If no row has
//! matched it by then and the join keeps unmatched rows of its side, it goes out alone.

use std::collections::{BTreeMap, HashMap};

use arrow_schema::Schema;
use holdfast_core::{Database, Result, StoreSpec, Transaction};
use serde_json::Value;

use super::matching::Matching;
use super::spec::{JoinWindowSpec, LEFT, RIGHT};
use crate::operator::execution::Operator;
use crate::operator::input::{InputLayout, InputRows, RowOrder, RowPlace, RowsSpec, StoredSides};
use crate::operator::outcome::Outcome;
use crate::operator::output::{JoinedRowWriter, JoinedSide, OutputColumns};
use crate::operator::spec::{OperatorSpec, by_time};
use crate::operator::waiting_rows::{CloseLimit, WaitingRows};
use crate::operator::worker::Worker;
use crate::protocol::Counts;
use crate::protocol::Epoch;
use crate::root::OperatorMeta;

/// The maximum number of keys that are joined at once. Their stored rows are in memory.
const KEYS: usize = 1_000;

/// One session of a join within a window.
pub struct JoinWindow {
    spec: JoinWindowSpec,
    output: OutputColumns,
    rows: InputRows,
    counts: Counts,
}

/// The new rows of a key, in order.
#[derive(Default)]
struct NewRows {
    left: Vec<(i64, RowPlace)>,
    right: Vec<(i64, RowPlace)>,
}

/// The input by key.
struct InputByKey<'a> {
    keys: Vec<&'a [u8]>,
    rows: Vec<NewRows>,
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
    fn by_key(&self, places: Vec<RowPlace>, stream_time: Option<i64>) -> InputByKey<'_> {
        let oldest = stream_time.map_or(i64::MIN, |time| time.saturating_sub(self.spec.grace));
        let mut input = InputByKey {
            keys: Vec::new(),
            rows: Vec::new(),
            unmatchable: Vec::new(),
            stream_time,
            late: 0,
        };
        let mut numbers: HashMap<&[u8], usize> = HashMap::new();
        for place in places {
            let (Some(key), Some(time)) = (self.rows.key(place), self.rows.time(place)) else {
                input.unmatchable.push(place);
                continue;
            };
            if time < oldest {
                input.late += 1;
                continue;
            }
            input.stream_time = input.stream_time.max(Some(time));
            let number = *numbers.entry(key).or_insert_with(|| {
                input.keys.push(key);
                input.rows.push(NewRows::default());
                input.keys.len() - 1
            });
            let new = &mut input.rows[number];
            if place.is_left() {
                &mut new.left
            } else {
                &mut new.right
            }
            .push((time, place));
        }
        input
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
            emit_alone(
                writer,
                self.rows.key_with_nulls(place),
                side,
                place.is_left(),
            )?;
        }
        Ok(dropped)
    }

    /// Returns the time before which the rows of a side are closed.
    fn close_limit(&self, is_left: bool, stream_time: Option<i64>) -> CloseLimit {
        match stream_time {
            _ if self.spec.last => CloseLimit::End,
            None => CloseLimit::Before(i64::MIN),
            Some(time) => CloseLimit::Before(
                time.saturating_sub(self.spec.grace)
                    .saturating_sub(self.spec.wait(is_left)),
            ),
        }
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
        let (mut left, mut right) = (WaitingRows::new(db, LEFT)?, WaitingRows::new(db, RIGHT)?);
        let places = self.rows.all(RowOrder::All, &mut Counts::default())?;
        let mut input = self.by_key(places, left.stream_time(tx).max(right.stream_time(tx)));
        input.stream_time = input.stream_time.max(self.rows.heartbeat);
        let mut counts = Counts {
            late: input.late,
            ..self.counts
        };
        let mut writer = JoinedRowWriter::new(&self.output, &self.rows.layout, worker);
        counts.dropped += self.emit_unmatchable(&input.unmatchable, &mut writer)?;
        let payload = |(time, place): &(i64, RowPlace)| (*time, self.rows.payload(*place));
        for (keys, rows) in input.keys.chunks(KEYS).zip(input.rows.chunks(KEYS)) {
            let mut matching = Matching::new(&self.spec, keys.to_vec());
            for (key, NewRows { left, right }) in rows.iter().enumerate() {
                matching.add_new(key, true, left.iter().map(payload));
                matching.add_new(key, false, right.iter().map(payload));
            }
            matching.load(tx, &left, &right)?;
            counts.matched += matching.run(&mut writer, &mut left, &mut right)?;
        }
        for (waiting, is_left) in [(left, true), (right, false)] {
            let limit = self.close_limit(is_left, input.stream_time);
            if self.spec.how.keeps_unmatched(is_left) {
                waiting.closed(tx, limit, &mut |key, time, row| {
                    if row.matched {
                        return Ok(());
                    }
                    let side = JoinedSide::row(Some(time), &row.payload);
                    emit_alone(&mut writer, key, side, is_left)
                })?;
            }
            waiting.stage(tx, limit, input.stream_time)?;
        }
        let outcome = writer.finish(&self.rows, counts)?;
        Ok(outcome.at(input.stream_time))
    }
}
