//! The waiting rows of both sides during an epoch.

use holdfast_core::{Database, Result, Transaction};

use super::spec::{JoinWindowSpec, LEFT, RIGHT};
use super::waiting_side::WaitingSide;
use crate::operator::input::InputRows;
use crate::operator::output::{JoinedRowWriter, JoinedSide};
use crate::operator::waiting_rows::{SpillLimit, WaitingRows};

/// Minimum memory for the changed records of a side, in bytes; with less there would be many short
/// runs on disk.
const MIN_CHANGED_BYTES: usize = 1 << 20;

/// The waiting rows of both sides, and the times of an epoch.
pub struct EpochSides {
    /// The left side and the right one.
    pub both: [WaitingSide; 2],
    /// Older rows are late.
    pub oldest: i64,
    /// The stream time after the epoch.
    pub stream_time: Option<i64>,
}

impl EpochSides {
    /// The waiting rows before an epoch whose newest row has this time.
    ///
    /// # Errors
    /// `InvalidValue` for a database without the stores of the join.
    pub fn new(
        db: &Database,
        tx: &Transaction,
        spec: &JoinWindowSpec,
        newest: Option<i64>,
    ) -> Result<Self> {
        let (left, right) = (WaitingRows::new(db, LEFT)?, WaitingRows::new(db, RIGHT)?);
        let before = left.stream_time(tx).max(right.stream_time(tx));
        let stream_time = before.max(newest);
        Ok(Self {
            both: [
                WaitingSide::new(left, spec, true, stream_time),
                WaitingSide::new(right, spec, false, stream_time),
            ],
            oldest: before.map_or(i64::MIN, |time| time.saturating_sub(spec.grace)),
            stream_time,
        })
    }

    /// Sets the memory above which changed records of a side move to files, in bytes. The files are
    /// in the folder of the epoch's rows, and count as spills of these rows.
    pub fn limit_memory(&mut self, bytes: usize, rows: &InputRows) {
        let bytes = bytes.max(MIN_CHANGED_BYTES);
        for side in &mut self.both {
            let limit = SpillLimit::new(bytes, rows.folder(), rows.budget());
            side.rows.limit_memory(limit);
        }
    }

    /// Sends the closed rows without a match, and stages the changes of the epoch.
    ///
    /// # Errors
    /// Those of the stores and of the worker.
    pub fn close(self, tx: &mut Transaction, writer: &mut JoinedRowWriter<'_>) -> Result<()> {
        for mut side in self.both {
            let is_left = side.is_left;
            side.for_each_closed_unmatched(tx, |key, time, payload| {
                writer.push_alone(key, JoinedSide::row(Some(time), payload), is_left)
            })?;
            side.stage(tx, self.stream_time)?;
        }
        Ok(())
    }
}
