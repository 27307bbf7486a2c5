//! The new and the waiting rows of some keys, and the pairs that they make.

use std::ops::Range;

use holdfast_core::{Result, Transaction};

use super::new_rows::{NewRow, NewRows};
use super::spec::JoinWindowSpec;
use super::waiting_side::WaitingSide;
use crate::operator::batch_size::BATCH_BYTES;
use crate::operator::input::{InputRows, RowPlace};
use crate::operator::output::{JoinedRowWriter, JoinedSide};
use crate::operator::waiting_rows::{RowRequest, WaitingRow};

/// A row of one side of a key.
struct Candidate<'a> {
    time: i64,
    row: WaitingRow<'a>,
    /// Where it is in the input, if it came in this epoch.
    place: Option<RowPlace>,
    /// Whether its record must be written.
    has_changed: bool,
}

/// One key's rows. Each side is in the order of time; at equal times, waiting rows come before new
/// ones.
#[derive(Default)]
struct KeyRows<'a> {
    left: Vec<Candidate<'a>>,
    right: Vec<Candidate<'a>>,
}

/// Joins the new rows of an epoch, some keys at a time.
pub struct Matching<'a> {
    /// The settings.
    pub spec: &'a JoinWindowSpec,
    /// The input.
    pub input: &'a InputRows,
    /// The input's rows by key. Those of one side of a key are in the order of time.
    pub new: &'a NewRows,
}

impl Matching<'_> {
    /// Sends all pairs of some keys that have a new row, and puts the changed records into the
    /// waiting rows. Returns the number of pairs, and the first key that is not joined. This is
    /// `keys.end`, or an earlier key if the waiting rows of a side exceed the size of a batch;
    /// `keys.start` if those of the first key do.
    ///
    /// # Errors
    /// Those of the store and of the worker.
    pub fn run(
        &self,
        tx: &mut Transaction,
        keys: Range<u32>,
        [left, right]: &mut [WaitingSide; 2],
        writer: &mut JoinedRowWriter<'_>,
    ) -> Result<(u64, u32)> {
        let requests = |is_left| {
            let keys = keys.clone();
            keys.filter_map(move |number| self.request(number, is_left))
        };
        let (found_left, left_end) = left.rows.find_within(tx, requests(true), BATCH_BYTES)?;
        let (found_right, right_end) = right.rows.find_within(tx, requests(false), BATCH_BYTES)?;
        let ends = [left_end, right_end].into_iter().flatten();
        let end = ends.fold(keys.end, u32::min);
        let (mut stored_left, mut stored_right) = (found_left.cursor(), found_right.cursor());
        let (mut rows, mut pairs) = (KeyRows::default(), 0);
        for number in keys.start..end {
            let new = |is_left| self.new.side(number, is_left);
            self.fill(&mut rows.left, stored_left.take(number), new(true));
            self.fill(&mut rows.right, stored_right.take(number), new(false));
            let key = self.new.key(number);
            pairs += rows.emit_pairs(key, self.spec, writer)?;
            put_changed(left, key, &rows.left)?;
            put_changed(right, key, &rows.right)?;
        }
        Ok((pairs, end))
    }

    /// Returns the waiting rows of a key's side that are needed.
    fn request(&self, number: u32, is_left: bool) -> Option<RowRequest<'_>> {
        let times = |is_left| {
            let rows = self.new.side(number, is_left);
            Some((rows.first()?.time, rows.last()?.time))
        };
        let (from, to) = self.spec.needed(is_left, times(is_left), times(!is_left))?;
        let key = self.new.key(number);
        Some(RowRequest {
            number,
            key,
            from,
            to,
        })
    }

    /// Replaces the rows of a side with those of another key. Both the waiting rows and the new
    /// ones are in the order of time.
    fn fill<'b>(
        &'b self,
        side: &mut Vec<Candidate<'b>>,
        stored: impl Iterator<Item = (i64, WaitingRow<'b>)>,
        new: &[NewRow],
    ) {
        side.clear();
        let mut stored = stored
            .map(|(time, row)| Candidate {
                time,
                row,
                place: None,
                has_changed: false,
            })
            .peekable();
        for NewRow { time, place } in new.iter().copied() {
            while let Some(row) = stored.next_if(|row| row.time <= time) {
                side.push(row);
            }
            side.push(Candidate {
                time,
                row: WaitingRow {
                    matched: false,
                    payload: self.input.payload(place),
                },
                place: Some(place),
                has_changed: true,
            });
        }
        side.extend(stored);
    }
}

impl KeyRows<'_> {
    fn emit_pairs(
        &mut self,
        key: &[u8],
        spec: &JoinWindowSpec,
        writer: &mut JoinedRowWriter<'_>,
    ) -> Result<u64> {
        let Self { left, right } = self;
        let mut pairs = 0;
        let mut pair = |ours: &mut Candidate<'_>, theirs: &mut Candidate<'_>| {
            pairs += 1;
            // Only sides whose unmatched rows go out must record the match.
            if spec.how.keeps_unmatched(true) {
                ours.record_match();
            }
            if spec.how.keeps_unmatched(false) {
                theirs.record_match();
            }
            writer.push(key, ours.side(), theirs.side())
        };
        for ours in left.iter_mut().filter(|row| row.is_new()) {
            for theirs in between(right, spec.matches_of(true, ours.time)) {
                pair(ours, theirs)?;
            }
        }
        if left.iter().all(Candidate::is_new) {
            return Ok(pairs);
        }
        for theirs in right.iter_mut().filter(|row| row.is_new()) {
            let waiting = between(left, spec.matches_of(false, theirs.time));
            for ours in waiting.iter_mut().filter(|row| !row.is_new()) {
                pair(ours, theirs)?;
            }
        }
        Ok(pairs)
    }
}

impl<'a> Candidate<'a> {
    fn is_new(&self) -> bool {
        self.place.is_some()
    }

    fn record_match(&mut self) {
        self.has_changed |= !self.row.matched;
        self.row.matched = true;
    }

    fn side(&self) -> JoinedSide<'a> {
        JoinedSide::row(Some(self.time), self.row.payload).at(self.place)
    }
}

/// Returns the rows with times in `[from, to]`.
fn between<'a, 'b>(
    rows: &'b mut [Candidate<'a>],
    (from, to): (i64, i64),
) -> &'b mut [Candidate<'a>] {
    let first = rows.partition_point(|row| row.time < from);
    let end = rows.partition_point(|row| row.time <= to);
    &mut rows[first..end.max(first)]
}

/// Puts the changed records of a key into the waiting rows of its side.
fn put_changed(side: &mut WaitingSide, key: &[u8], rows: &[Candidate<'_>]) -> Result<()> {
    for record in rows.chunk_by(|a, b| a.time == b.time) {
        if let [first, ..] = record
            && record.iter().any(|row| row.has_changed)
        {
            side.put(key, first.time, record.iter().map(|row| row.row))?;
        }
    }
    Ok(())
}
