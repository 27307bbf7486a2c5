//! The join with grace: left rows wait until the left side's stream time is `grace` past their
//! time. So right rows that are late by less than `grace` are still matched.
//!
//! `T` is the greatest time of a left row with a key (or the heartbeat's). A left row goes out in
//! the first epoch in which `T >= time + grace`. If this is the epoch in which it arrives, it does
//! not wait. A left row is joined as of its own time: it and the right rows of the epoch in which
//! it goes out are processed in the order of their times. A left row without a key or a time never
//! waits.

use holdfast_core::{Database, Op, Result, Timestamp, Transaction, VersionedStore};

use super::lookup::FoundVersions;
use super::plan::AsofJoinPlan;
use super::spec::{AsofJoinKind, TABLE, WAITING};
use crate::operator::input::{InputRows, RowPlace};
use crate::operator::outcome::Outcome;
use crate::operator::output::{JoinedRowWriter, JoinedSide};
use crate::operator::waiting_rows::{CloseLimit, RowRequest, WaitingRow, WaitingRows};
use crate::operator::worker::Worker;
use crate::protocol::Counts;

/// What the join does with one row.
enum JoinStep<'a> {
    /// Put a right row into the table.
    Put {
        key: &'a [u8],
        time: i64,
        value: Option<&'a [u8]>,
    },
    /// Join a left row.
    Get {
        key: &'a [u8],
        time: i64,
        left: JoinedSide<'a>,
    },
    /// Pass on a left row without a key or a time. It matches nothing.
    Unmatchable { key: &'a [u8], left: JoinedSide<'a> },
}

/// A left row that has waited long enough.
struct Released {
    time: i64,
    key: Vec<u8>,
    payload: Vec<u8>,
}

/// The processing of one epoch's rows in a join whose left rows wait.
pub struct GraceRun<'r> {
    plan: &'r AsofJoinPlan,
    rows: &'r InputRows,
}

impl<'r> GraceRun<'r> {
    /// Prepares the processing of these rows.
    pub fn new(plan: &'r AsofJoinPlan, rows: &'r InputRows) -> Self {
        Self { plan, rows }
    }

    /// Joins the left rows that no longer wait. `ordered` are all rows, in order.
    ///
    /// # Errors
    /// Those of the stores and of the worker.
    pub fn run(
        &self,
        db: &Database,
        tx: &mut Transaction,
        worker: &mut dyn Worker,
        ordered: Vec<RowPlace>,
        mut counts: Counts,
    ) -> Result<Outcome> {
        let table = db.versioned(TABLE)?;
        let mut waiting = WaitingRows::new(db, WAITING)?;
        let newest = ordered
            .iter()
            .filter_map(|place| self.waits(*place))
            .map(|(_, time)| time)
            .max();
        let stream_time = waiting.stream_time(tx).max(newest).max(self.rows.heartbeat);
        let limit = match stream_time {
            Some(time) => {
                CloseLimit::Before(time.saturating_sub(self.plan.grace).saturating_add(1))
            }
            None => CloseLimit::Before(i64::MIN),
        };
        let (later, now): (Vec<RowPlace>, Vec<RowPlace>) = ordered.into_iter().partition(|place| {
            self.waits(*place)
                .is_some_and(|(_, time)| !limit.is_closed(time))
        });
        let mut released = Vec::new();
        waiting.closed(tx, limit, &mut |key, time, row| {
            released.push(Released {
                time,
                key: key.to_vec(),
                payload: row.payload.to_vec(),
            });
            Ok(())
        })?;
        let mut writer = JoinedRowWriter::over_input(&self.plan.output, self.rows, worker);
        let (steps, mut found) = (self.steps(&now, &released), FoundVersions::default());
        let mut rest = &steps[..];
        while !rest.is_empty() {
            let (now, later) =
                rest.split_at(found.next(rest, |step| matches!(step, JoinStep::Get { .. })));
            rest = later;
            self.apply((&table, &mut found), tx, now, &mut writer, &mut counts)?;
        }
        self.add_waiting(&mut waiting, tx, &later)?;
        waiting.stage(tx, limit, stream_time)?;
        Ok(writer.finish(self.rows, counts)?.at(stream_time))
    }

    /// Returns the key and the time of a left row that may have to wait.
    fn waits(&self, place: RowPlace) -> Option<(&'r [u8], i64)> {
        if place.is_left() {
            Some((self.rows.key(place)?, self.rows.time(place)?))
        } else {
            None
        }
    }

    /// Returns the steps of new and released rows in the order of time. At equal times, right rows
    /// come first, then released rows, then new left rows.
    fn steps<'a>(&self, now: &[RowPlace], released: &'a [Released]) -> Vec<JoinStep<'a>>
    where
        'r: 'a,
    {
        let mut steps = Vec::with_capacity(now.len() + released.len());
        let mut released = released.iter().peekable();
        for place in now.iter().copied() {
            let time = self.rows.time(place);
            let is_before = |row: &&Released| {
                time.is_some_and(|time| row.time < time || (row.time == time && place.is_left()))
            };
            while let Some(row) = released.next_if(is_before) {
                steps.push(row.step());
            }
            steps.push(self.step(place));
        }
        steps.extend(released.map(Released::step));
        steps
    }

    /// Returns the step of a new row.
    fn step(&self, place: RowPlace) -> JoinStep<'r> {
        let (key, time) = (self.rows.key_with_nulls(place), self.rows.time(place));
        let payload = self.rows.payload(place);
        let left = JoinedSide::row(time, payload).at(Some(place));
        match (self.waits(place), time) {
            (Some((key, time)), _) => JoinStep::Get { key, time, left },
            (None, _) if place.is_left() => JoinStep::Unmatchable { key, left },
            // Right rows without a time have been left out before.
            (None, time) => JoinStep::Put {
                key,
                time: time.unwrap_or(i64::MIN),
                value: (!self.rows.is_deleted(place)).then_some(payload),
            },
        }
    }

    /// Applies steps to the table, and sends the rows of the result.
    fn apply(
        &self,
        (table, found): (&VersionedStore, &mut FoundVersions),
        tx: &mut Transaction,
        steps: &[JoinStep<'_>],
        writer: &mut JoinedRowWriter<'_>,
        counts: &mut Counts,
    ) -> Result<()> {
        let ops = steps
            .iter()
            .enumerate()
            .filter_map(|(number, step)| Some((step.op()?, number)));
        found.run(table, tx, steps.len(), ops.collect(), counts)?;
        for (number, step) in steps.iter().enumerate() {
            let (key, left) = match *step {
                JoinStep::Put { .. } => continue,
                JoinStep::Get { key, left, .. } | JoinStep::Unmatchable { key, left } => {
                    (key, left)
                }
            };
            let right = found.get(number);
            let is_inner = self.plan.how == AsofJoinKind::Inner;
            counts.dropped += u64::from(is_inner && matches!(step, JoinStep::Unmatchable { .. }));
            if right.is_some() || !is_inner {
                let right = right.map_or(JoinedSide::MISSING, |(time, value)| {
                    JoinedSide::row(Some(time), value)
                });
                writer.push(key, left, right)?;
            }
        }
        Ok(())
    }

    /// Adds rows to those that wait.
    fn add_waiting(
        &self,
        waiting: &mut WaitingRows,
        tx: &mut Transaction,
        places: &[RowPlace],
    ) -> Result<()> {
        let mut rows: Vec<(&[u8], i64, RowPlace)> = places
            .iter()
            .filter_map(|place| self.waits(*place).map(|(key, time)| (key, time, *place)))
            .collect();
        // The sort is stable: the rows of a record stay in their order.
        rows.sort_by_key(|(key, time, _)| (*key, *time));
        let records: Vec<_> = rows.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)).collect();
        let requests = (0..).zip(&records).filter_map(|(number, record)| {
            let (key, time, _) = *record.first()?;
            Some(RowRequest {
                number,
                key,
                from: time,
                to: time,
            })
        });
        let found = waiting.find(tx, requests)?;
        let mut stored = found.cursor();
        for (number, record) in (0..).zip(records) {
            let stored = stored.take(number).map(|(_, row)| row);
            let new = record.iter().map(|(_, _, place)| WaitingRow {
                matched: false,
                payload: self.rows.payload(*place),
            });
            if let [(key, time, _), ..] = record {
                waiting.put(key, *time, stored.chain(new))?;
            }
        }
        Ok(())
    }
}

impl Released {
    fn step(&self) -> JoinStep<'_> {
        JoinStep::Get {
            key: &self.key,
            time: self.time,
            left: JoinedSide::row(Some(self.time), &self.payload),
        }
    }
}

impl<'a> JoinStep<'a> {
    /// The operation on the table, if there is one.
    fn op(&self) -> Option<Op<'a>> {
        match *self {
            Self::Put { key, time, value } => Some(Op::Put {
                key,
                value,
                timestamp: Timestamp(time),
            }),
            Self::Get { key, time, .. } => Some(Op::Get {
                key,
                as_of: Timestamp(time),
            }),
            Self::Unmatchable { .. } => None,
        }
    }
}
