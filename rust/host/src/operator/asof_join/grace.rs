//! The join with grace: left rows wait until the left side's stream time is `grace` past their
//! time. So right rows that are late by less than `grace` are still matched.
//!
//! `T` is the greatest time of a left row with a key (or the heartbeat's). A left row goes out in
//! the first epoch in which `T >= time + grace`. If this is the epoch in which it arrives, it does
//! not wait. A left row is joined as of its own time: it and the right rows of the epoch in which
//! it goes out are processed in the order of their times. A left row without a key or a time never
//! waits.
//!
//! `T` must be known before the first row is joined. So if the rows are in several parts, all parts
//! are read twice.

use std::sync::Arc;

use holdfast_core::{Database, Op, Result, Timestamp, Transaction, VersionedStore};

use super::added_rows::{AddedRow, AddedRows};
use super::lookup::FoundVersions;
use super::plan::AsofJoinPlan;
use super::spec::{AsofJoinKind, TABLE, WAITING};
use crate::operator::batch_size::BATCH_ROWS;
use crate::operator::input::{InputRows, RowOrder, RowPlace};
use crate::operator::outcome::Outcome;
use crate::operator::output::{JoinedRowWriter, JoinedSide};
use crate::operator::waiting_rows::{CloseLimit, ClosedRow, ClosedRows, WaitingRows};
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

/// The processing of one epoch's rows in a join whose left rows wait.
pub struct GraceRun<'r> {
    plan: &'r AsofJoinPlan,
    rows: &'r mut InputRows,
}

/// The state of an epoch's join that all its parts share.
struct JoinProgress<'w> {
    table: VersionedStore,
    found: FoundVersions,
    /// Left rows of earlier epochs that have waited long enough.
    released: ClosedRows,
    writer: JoinedRowWriter<'w>,
    counts: Counts,
}

impl<'r> GraceRun<'r> {
    /// Prepares the processing of these rows.
    pub fn new(plan: &'r AsofJoinPlan, rows: &'r mut InputRows) -> Self {
        Self { plan, rows }
    }

    /// Joins the left rows that no longer wait.
    ///
    /// # Errors
    /// Those of [`InputRows::next_part`], of the stores and of the worker.
    pub fn run(
        mut self,
        db: &Database,
        tx: &mut Transaction,
        worker: &mut dyn Worker,
        mut counts: Counts,
    ) -> Result<Outcome> {
        let waiting = WaitingRows::new(db, WAITING)?;
        let (mut next, newest) = self.first_part(&mut counts)?;
        let stream_time = waiting.stream_time(tx).max(newest).max(self.rows.heartbeat);
        let limit = match stream_time {
            Some(time) => {
                CloseLimit::Before(time.saturating_sub(self.plan.grace).saturating_add(1))
            }
            None => CloseLimit::Before(i64::MIN),
        };
        let layout = Arc::clone(&self.rows.layout);
        let mut progress = JoinProgress {
            table: db.versioned(TABLE)?,
            found: FoundVersions::default(),
            released: ClosedRows::open(&db.window(WAITING)?, tx, limit)?,
            writer: JoinedRowWriter::new(&self.plan.output, &layout, worker),
            counts,
        };
        let mut added = AddedRows::default();
        while let Some(part) = next {
            let (later, now): (Vec<RowPlace>, Vec<RowPlace>) =
                part.into_iter().partition(|place| {
                    self.waits(*place)
                        .is_some_and(|(_, time)| !limit.is_closed(time))
                });
            progress.writer.start_part(self.rows)?;
            self.join(&mut progress, tx, &now, false)?;
            added.add(db, tx, &self.added(&later))?;
            next = self
                .rows
                .next_part(RowOrder::Matchable, &mut progress.counts)?;
        }
        self.join(&mut progress, tx, &[], true)?;
        added.finish(db, tx)?;
        waiting.stage(tx, limit, stream_time)?;
        let JoinProgress { writer, counts, .. } = progress;
        Ok(writer.finish(self.rows, counts)?.at(stream_time))
    }

    /// Returns the first part of the rows, and the greatest time of the left rows of all parts that
    /// may have to wait.
    fn first_part(&mut self, counts: &mut Counts) -> Result<(Option<Vec<RowPlace>>, Option<i64>)> {
        let (before, mut newest) = (*counts, None);
        let mut next = self.rows.next_part(RowOrder::Matchable, counts)?;
        while let Some(part) = &next {
            let times = part.iter().filter_map(|place| self.waits(*place));
            newest = newest.max(times.map(|(_, time)| time).max());
            if self.rows.are_in_memory() {
                return Ok((next, newest));
            }
            next = self.rows.next_part(RowOrder::Matchable, counts)?;
        }
        // The second pass counts the same rows again.
        *counts = before;
        self.rows.restart();
        let first = self.rows.next_part(RowOrder::Matchable, counts)?;
        Ok((first, newest))
    }

    /// Returns the key and the time of a left row that may have to wait.
    fn waits(&self, place: RowPlace) -> Option<(&[u8], i64)> {
        if place.is_left() {
            Some((self.rows.key(place)?, self.rows.time(place)?))
        } else {
            None
        }
    }

    /// Returns left rows that have to wait.
    fn added(&self, places: &[RowPlace]) -> Vec<AddedRow<'_>> {
        let rows = places.iter().filter_map(|place| {
            let (key, time) = self.waits(*place)?;
            let payload = self.rows.payload(*place);
            Some(AddedRow { key, time, payload })
        });
        rows.collect()
    }

    /// Joins new rows, and the released rows before the last one of them. At the end, joins all
    /// released rows that are left.
    fn join(
        &self,
        progress: &mut JoinProgress<'_>,
        tx: &mut Transaction,
        mut now: &[RowPlace],
        is_end: bool,
    ) -> Result<()> {
        let JoinProgress {
            table,
            found,
            released,
            writer,
            counts,
        } = progress;
        loop {
            released.read()?;
            let (steps, passed) = self.steps(now, released, is_end);
            if steps.is_empty() {
                return Ok(());
            }
            let mut rest = &steps[..];
            while !rest.is_empty() {
                let (now, later) =
                    rest.split_at(found.next(rest, |step| matches!(step, JoinStep::Get { .. })));
                rest = later;
                self.apply((&*table, &mut *found), tx, now, writer, counts)?;
            }
            now = &now[steps.len() - passed..];
            released.pass(passed);
        }
    }

    /// Returns the next steps of new and released rows in the order of time, and how many of them
    /// are of released rows. At equal times, right rows come first, then released rows, then new
    /// left rows.
    fn steps<'a>(
        &'a self,
        now: &[RowPlace],
        released: &'a ClosedRows,
        is_end: bool,
    ) -> (Vec<JoinStep<'a>>, usize) {
        let (mut steps, mut passed) = (Vec::new(), 0);
        while steps.len() < BATCH_ROWS {
            let (place, row) = (now.get(steps.len() - passed), released.get(passed));
            if row.is_none() && passed > 0 {
                // There may be more released rows, which must be read first.
                break;
            }
            let is_first = |row: &ClosedRow<'_>| {
                place.map_or(is_end, |place| self.is_before(row.time, *place))
            };
            match (row.filter(is_first), place) {
                (Some(row), _) => {
                    steps.push(released_step(row));
                    passed += 1;
                }
                (None, Some(place)) => steps.push(self.step(*place)),
                (None, None) => break,
            }
        }
        (steps, passed)
    }

    /// Whether a released row of this time comes before a new row.
    fn is_before(&self, released: i64, place: RowPlace) -> bool {
        let time = self.rows.time(place);
        time.is_some_and(|time| released < time || (released == time && place.is_left()))
    }

    /// Returns the step of a new row.
    fn step(&self, place: RowPlace) -> JoinStep<'_> {
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
}

/// Returns the step of a released row.
fn released_step(row: ClosedRow<'_>) -> JoinStep<'_> {
    JoinStep::Get {
        key: row.key,
        time: row.time,
        left: JoinedSide::row(Some(row.time), row.payload),
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
