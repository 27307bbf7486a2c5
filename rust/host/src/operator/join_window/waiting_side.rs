//! The waiting rows of one side of the join.

use holdfast_core::{Result, Transaction};

use super::spec::JoinWindowSpec;
use crate::operator::waiting_rows::{CloseLimit, WaitingRow, WaitingRows};

/// The waiting rows of one side, and which of them are closed after this epoch.
pub struct WaitingSide {
    /// Whether it is the left side.
    pub is_left: bool,
    /// The rows.
    pub rows: WaitingRows,
    /// Whether rows that are closed without a match go out.
    keeps_unmatched: bool,
    limit: CloseLimit,
}

impl WaitingSide {
    /// The rows of a side before an epoch. Which of them are closed depends on the stream time
    /// after the epoch.
    pub fn new(
        rows: WaitingRows,
        spec: &JoinWindowSpec,
        is_left: bool,
        stream_time: Option<i64>,
    ) -> Self {
        let limit = match stream_time {
            _ if spec.last => CloseLimit::End,
            None => CloseLimit::Before(i64::MIN),
            Some(time) => CloseLimit::Before(
                time.saturating_sub(spec.grace)
                    .saturating_sub(spec.wait(is_left)),
            ),
        };
        Self {
            is_left,
            rows,
            keeps_unmatched: spec.how.keeps_unmatched(is_left),
            limit,
        }
    }

    /// Replaces the record of a key and a time. A closed record is not needed if no unmatched row
    /// goes out.
    ///
    /// # Errors
    /// As [`WaitingRows::put`].
    pub fn put<'a>(
        &mut self,
        key: &[u8],
        time: i64,
        rows: impl IntoIterator<Item = WaitingRow<'a>>,
    ) -> Result<()> {
        if self.limit.is_closed(time) && !self.keeps_unmatched {
            return Ok(());
        }
        self.rows.put(key, time, rows)
    }

    /// Passes the key, the time and the payload of each closed row without a match to `f`, if they
    /// go out.
    ///
    /// # Errors
    /// Those of the store and of `f`.
    pub fn for_each_closed_unmatched(
        &mut self,
        tx: &mut Transaction,
        mut f: impl FnMut(&[u8], i64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        if !self.keeps_unmatched {
            return Ok(());
        }
        self.rows
            .for_each_closed(tx, self.limit, &mut |key, time, row| {
                if row.matched {
                    Ok(())
                } else {
                    f(key, time, row.payload)
                }
            })
    }

    /// Stages the changes of this epoch.
    ///
    /// # Errors
    /// As [`WaitingRows::stage`].
    pub fn stage(self, tx: &mut Transaction, stream_time: Option<i64>) -> Result<()> {
        self.rows.stage(tx, self.limit, stream_time)
    }
}
