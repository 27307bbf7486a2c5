//! The join of two streams within a window: rows of one key, the right one's time in
//! `[left - before, left + after]`.
//!
//! With `T` the stream time of both sides together, rows older than `T - grace` are refused. A row
//! waits as long as one that is not refused can match it: a left one until `T` is past its time
//! `+ after + grace`, a right one until it is past its time `+ before + grace`. Then it goes out by
//! itself, if its side is one that does and nothing has matched it. `spec.rs` settings ·
//! `matching.rs` one key · `operator/shelf.rs` rows that wait.

mod matching;
mod spec;

pub use spec::{How, Spec};

use std::collections::{BTreeMap, HashMap};

use arrow_schema::Schema;
use holdfast_core::{Database, Result, Transaction};
use serde_json::Value;

use super::pairs::Emitter;
use super::rows::{Layout, Order, Place, Rows, Sides};
use super::shelf::{Limit, Shelf};
use super::{Counts, Operator, Outcome, Output, Worker};
use crate::protocol::Epoch;
use crate::root::OperatorMeta;
use matching::Matching;

/// The store of left rows that wait.
const LEFT: &str = "left";
/// The store of right rows that wait.
const RIGHT: &str = "right";

/// Keys that are joined at once: what is stored of them is in memory.
const KEYS: usize = 1_000;

/// One session of a join within a window.
pub struct JoinWindow {
    spec: Spec,
    output: Output,
    rows: Rows,
    counts: Counts,
}

/// The new rows of a key, in order.
#[derive(Default)]
struct Arrived {
    left: Vec<(i64, Place)>,
    right: Vec<(i64, Place)>,
}

impl JoinWindow {
    /// A join over input of these columns.
    ///
    /// # Errors
    /// `InvalidValue` or `InvalidType` names the column or setting that does not fit.
    pub fn new(spec: &Spec, schema: &Schema) -> Result<Self> {
        spec.check()?;
        let layout = Layout::new("join_window", &spec.rows, schema)?;
        let output = Output::new("join_window", &spec.output, &layout)?;
        Ok(Self {
            spec: spec.clone(),
            output,
            rows: Rows::with_payloads(layout, true, true),
            counts: Counts::default(),
        })
    }

    fn time(&self, place: Place) -> Option<i64> {
        self.rows.inputs[place.input()].time(place.row())
    }
}

/// What comes in, sorted out.
struct Sorted<'a> {
    keys: Vec<&'a [u8]>,
    arrived: Vec<Arrived>,
    /// Rows without a key or a time.
    alone: Vec<Place>,
    stream_time: Option<i64>,
    late: u64,
}

impl JoinWindow {
    fn sort_out(&self, places: Vec<Place>, stream_time: Option<i64>) -> Sorted<'_> {
        let oldest = stream_time.map_or(i64::MIN, |time| time.saturating_sub(self.spec.grace));
        let mut sorted = Sorted {
            keys: Vec::new(),
            arrived: Vec::new(),
            alone: Vec::new(),
            stream_time,
            late: 0,
        };
        let mut numbers: HashMap<&[u8], usize> = HashMap::new();
        for place in places {
            let (Some(key), Some(time)) = (
                self.rows.inputs[place.input()].keys.get(place.row()),
                self.time(place),
            ) else {
                sorted.alone.push(place);
                continue;
            };
            if time < oldest {
                sorted.late += 1;
                continue;
            }
            sorted.stream_time = sorted.stream_time.max(Some(time));
            let number = *numbers.entry(key).or_insert_with(|| {
                sorted.keys.push(key);
                sorted.arrived.push(Arrived::default());
                sorted.keys.len() - 1
            });
            let arrived = &mut sorted.arrived[number];
            if place.is_left() {
                &mut arrived.left
            } else {
                &mut arrived.right
            }
            .push((time, place));
        }
        sorted
    }

    /// Rows without a key or a time match nothing.
    fn alone(&self, places: &[Place], emitter: &mut Emitter<'_>) -> Result<u64> {
        let mut dropped = 0;
        for place in places {
            if !self.spec.how.keeps(place.is_left()) {
                dropped += 1;
                continue;
            }
            let key = self.rows.inputs[place.input()].keys.with_nulls(place.row());
            let side = Some((self.time(*place), self.rows.payload(*place)));
            let (left, right) = if place.is_left() {
                (side, None)
            } else {
                (None, side)
            };
            emitter.push(key, left, right)?;
        }
        Ok(dropped)
    }
}

impl Operator for JoinWindow {
    fn meta(&self, first_epoch: Epoch) -> OperatorMeta {
        let Spec {
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
        self.rows.layout.meta(
            "join_window",
            Sides {
                left: true,
                right: true,
            },
            settings,
            first_epoch,
        )
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
        let (mut left, mut right) = (Shelf::new(db, LEFT)?, Shelf::new(db, RIGHT)?);
        let places = self.rows.all(Order::All, &mut Counts::default())?;
        let mut sorted = self.sort_out(places, left.stream_time(tx).max(right.stream_time(tx)));
        sorted.stream_time = sorted.stream_time.max(self.rows.heartbeat);
        let mut counts = Counts {
            late: sorted.late,
            ..self.counts
        };
        let mut emitter = Emitter::new(&self.output, &self.rows.layout, worker);
        counts.dropped += self.alone(&sorted.alone, &mut emitter)?;
        let numbers: Vec<usize> = (0..sorted.keys.len()).collect();
        for numbers in numbers.chunks(KEYS) {
            let mut matching = Matching::new(
                &self.spec,
                numbers.iter().map(|number| sorted.keys[*number]).collect(),
            );
            for (n, number) in numbers.iter().enumerate() {
                let Arrived { left, right } = &sorted.arrived[*number];
                matching.arrived(
                    n,
                    true,
                    left.iter()
                        .map(|(time, place)| (*time, self.rows.payload(*place))),
                );
                matching.arrived(
                    n,
                    false,
                    right
                        .iter()
                        .map(|(time, place)| (*time, self.rows.payload(*place))),
                );
            }
            matching.load(tx, &left, &right)?;
            counts.matched += matching.run(&mut emitter, &mut left, &mut right)?;
        }
        for (shelf, is_left) in [(left, true), (right, false)] {
            let limit = match sorted.stream_time {
                _ if self.spec.last => Limit::End,
                None => Limit::Before(i64::MIN),
                Some(time) => Limit::Before(
                    time.saturating_sub(self.spec.grace)
                        .saturating_sub(self.spec.waits(is_left)),
                ),
            };
            if self.spec.how.keeps(is_left) {
                shelf.closed(
                    tx,
                    limit,
                    &mut |key, time, row| match (row.matched, is_left) {
                        (true, _) => Ok(()),
                        (false, true) => emitter.push(key, Some((Some(time), &row.payload)), None),
                        (false, false) => emitter.push(key, None, Some((Some(time), &row.payload))),
                    },
                )?;
            }
            shelf.stage(tx, limit, sorted.stream_time)?;
        }
        let (output, rows) = emitter.finish()?;
        counts.output_rows = rows;
        Ok(Outcome {
            input: self.rows.digest(),
            output,
            counts,
        })
    }
}
