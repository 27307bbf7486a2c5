//! The join with grace: left rows wait until the left side's stream time is `grace` past them, so
//! that right rows which come late, but by less, still count for them.
//!
//! With `T` the greatest left time (or heartbeat's), a left row goes out in the epoch in which
//! `T >= time + grace`; one that is that late already, when it comes. It is joined as of its own
//! time, in the order of times among that epoch's right rows.

use std::collections::BTreeMap;

use holdfast_core::{Database, Op, Result, Timestamp, Transaction, VersionedStore};

use super::lookup::Found;
use super::{AsofJoin, HELD, How, TABLE};
use crate::operator::pairs::Emitter;
use crate::operator::rows::{Order, Place};
use crate::operator::shelf::{Limit, Shelf, Waiting};
use crate::operator::{Counts, Outcome, Worker};

/// What is done with one row, in order.
enum Step<'a> {
    /// A right row enters the table.
    Put {
        key: &'a [u8],
        time: i64,
        value: Option<&'a [u8]>,
    },
    /// A left row is joined.
    Get {
        key: &'a [u8],
        time: i64,
        payload: &'a [u8],
    },
    /// A left row without a key or a time matches nothing.
    Alone {
        key: &'a [u8],
        time: Option<i64>,
        payload: &'a [u8],
    },
}

/// A left row that has waited.
struct Released {
    time: i64,
    key: Vec<u8>,
    payload: Vec<u8>,
}

impl AsofJoin {
    /// Runs with left rows held back.
    pub(super) fn run_held(
        &mut self,
        db: &Database,
        tx: &mut Transaction,
        worker: &mut dyn Worker,
    ) -> Result<Outcome> {
        let table = db.versioned(TABLE)?;
        let mut held = Shelf::new(db, HELD)?;
        let mut counts = self.counts;
        let ordered = self.rows.all(Order::Matchable, &mut counts)?;
        let newest = ordered
            .iter()
            .filter_map(|place| self.waits(*place))
            .map(|(_, time)| time)
            .max();
        let stream_time = held.stream_time(tx).max(newest).max(self.rows.heartbeat);
        let limit = match stream_time {
            Some(time) => Limit::Before(time.saturating_sub(self.layout.grace).saturating_add(1)),
            None => Limit::Before(i64::MIN),
        };
        let (waiting, now): (Vec<Place>, Vec<Place>) = ordered.into_iter().partition(|place| {
            self.waits(*place)
                .is_some_and(|(_, time)| !limit.is_closed(time))
        });
        let mut released = Vec::new();
        held.closed(tx, limit, &mut |key, time, row| {
            released.push(Released {
                time,
                key: key.to_vec(),
                payload: row.payload.clone(),
            });
            Ok(())
        })?;
        let mut emitter = Emitter::new(&self.layout.output, &self.rows.layout, worker);
        let (steps, mut found) = (self.steps(&now, &released), Found::default());
        let mut rest = &steps[..];
        while !rest.is_empty() {
            let (now, later) =
                rest.split_at(found.next(rest, |step| matches!(step, Step::Get { .. })));
            rest = later;
            self.work((&table, &mut found), tx, now, &mut emitter, &mut counts)?;
        }
        self.hold(&mut held, tx, &waiting)?;
        held.stage(tx, limit, stream_time)?;
        let (output, rows) = emitter.finish()?;
        counts.output_rows = rows;
        Ok(Outcome {
            input: self.rows.digest(),
            output,
            counts,
        })
    }

    /// Key and time of a left row that may have to wait.
    fn waits(&self, place: Place) -> Option<(&[u8], i64)> {
        let input = &self.rows.inputs[place.input()];
        if place.is_left() {
            Some((input.keys.get(place.row())?, input.time(place.row())?))
        } else {
            None
        }
    }

    /// New rows and released ones in one order: by time, right rows first, then released ones.
    fn steps<'a>(&'a self, now: &[Place], released: &'a [Released]) -> Vec<Step<'a>> {
        let mut steps = Vec::with_capacity(now.len() + released.len());
        let mut released = released.iter().peekable();
        for place in now {
            let (input, row) = (&self.rows.inputs[place.input()], place.row());
            let key = input.keys.with_nulls(row);
            let is_before = |held: &&Released| {
                input
                    .time(row)
                    .is_some_and(|time| held.time < time || (held.time == time && place.is_left()))
            };
            while let Some(Released { time, key, payload }) = released.next_if(is_before) {
                steps.push(Step::Get {
                    key,
                    time: *time,
                    payload,
                });
            }
            steps.push(match (self.waits(*place), input.time(row)) {
                (Some((key, time)), _) => Step::Get {
                    key,
                    time,
                    payload: self.rows.payload(*place),
                },
                (None, time) if place.is_left() => Step::Alone {
                    key,
                    time,
                    payload: self.rows.payload(*place),
                },
                // Right rows without a time are not here.
                (None, time) => {
                    let value = (!input.is_deleted(row)).then(|| self.rows.payload(*place));
                    Step::Put {
                        key,
                        time: time.unwrap_or(i64::MIN),
                        value,
                    }
                }
            });
        }
        steps.extend(released.map(|Released { time, key, payload }| Step::Get {
            key,
            time: *time,
            payload,
        }));
        steps
    }

    fn work<'a>(
        &self,
        (table, found): (&VersionedStore, &mut Found),
        tx: &mut Transaction,
        steps: &[Step<'a>],
        emitter: &mut Emitter<'_>,
        counts: &mut Counts,
    ) -> Result<()> {
        let op = |(n, step): (usize, &Step<'a>)| match *step {
            Step::Put { key, time, value } => Some((
                Op::Put {
                    key,
                    value,
                    timestamp: Timestamp(time),
                },
                n,
            )),
            Step::Get { key, time, .. } => Some((
                Op::Get {
                    key,
                    as_of: Timestamp(time),
                },
                n,
            )),
            Step::Alone { .. } => None,
        };
        found.run(
            table,
            tx,
            steps.len(),
            steps.iter().enumerate().filter_map(op).collect(),
            counts,
        )?;
        for (n, step) in steps.iter().enumerate() {
            let (key, time, payload) = match *step {
                Step::Put { .. } => continue,
                Step::Get { key, time, payload } => (key, Some(time), payload),
                Step::Alone { key, time, payload } => (key, time, payload),
            };
            let right = found.get(n).map(|(time, value)| (Some(time), value));
            counts.dropped +=
                u64::from(self.layout.how == How::Inner && matches!(step, Step::Alone { .. }));
            if right.is_some() || self.layout.how == How::Left {
                emitter.push(key, Some((time, payload)), right)?;
            }
        }
        Ok(())
    }

    /// Adds rows to those that wait.
    fn hold(&self, held: &mut Shelf, tx: &mut Transaction, waiting: &[Place]) -> Result<()> {
        let mut records: BTreeMap<(&[u8], i64), Vec<Waiting>> = BTreeMap::new();
        for place in waiting {
            if let Some(record) = self.waits(*place) {
                let payload = self.rows.payload(*place).to_vec();
                records.entry(record).or_default().push(Waiting {
                    matched: false,
                    payload,
                });
            }
        }
        let (keys, times): (Vec<&[u8]>, Vec<(i64, i64)>) = records
            .keys()
            .map(|(key, time)| (*key, (*time, *time)))
            .unzip();
        let mut stored: Vec<Vec<Waiting>> = vec![Vec::new(); keys.len()];
        held.find(tx, &keys, &times, &mut |number, _, rows| {
            stored[number] = rows
        })?;
        for (((key, time), rows), stored) in records.into_iter().zip(stored) {
            held.put(key, time, [stored, rows].concat());
        }
        Ok(())
    }
}
