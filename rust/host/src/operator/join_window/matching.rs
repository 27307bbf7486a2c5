//! The new and the waiting rows of some keys, and the pairs that they make.

use holdfast_core::{Result, Transaction};

use super::spec::JoinWindowSpec;
use crate::operator::output::{JoinedRowWriter, JoinedSide};
use crate::operator::waiting_rows::{WaitingRow, WaitingRows};

/// A row of one side of a key.
struct Candidate {
    time: i64,
    row: WaitingRow,
    /// Whether it came in this epoch.
    is_new: bool,
    /// Whether its record must be written.
    has_changed: bool,
}

/// One key's rows. After `load`, each side is in the order of time; at equal times, waiting rows
/// come before new ones.
#[derive(Default)]
struct KeyRows {
    left: Vec<Candidate>,
    right: Vec<Candidate>,
}

/// Some keys with their rows.
pub struct Matching<'a> {
    spec: &'a JoinWindowSpec,
    keys: Vec<&'a [u8]>,
    rows: Vec<KeyRows>,
}

impl<'a> Matching<'a> {
    /// Starts with keys that have no rows.
    pub fn new(spec: &'a JoinWindowSpec, keys: Vec<&'a [u8]>) -> Self {
        Self {
            spec,
            rows: keys.iter().map(|_| KeyRows::default()).collect(),
            keys,
        }
    }

    /// Adds new rows of a key's side, which are in the order of time.
    pub fn add_new<'b>(
        &mut self,
        key: usize,
        is_left: bool,
        rows: impl Iterator<Item = (i64, &'b [u8])>,
    ) {
        let new = rows.map(|(time, payload)| Candidate {
            time,
            row: WaitingRow {
                matched: false,
                payload: payload.to_vec(),
            },
            is_new: true,
            has_changed: true,
        });
        self.rows[key].side_mut(is_left).extend(new);
    }

    /// Adds the waiting rows that new rows may match, and the waiting rows of the same side and
    /// time as a new row, which are in the same record as that row.
    pub fn load(
        &mut self,
        tx: &mut Transaction,
        left: &WaitingRows,
        right: &WaitingRows,
    ) -> Result<()> {
        for (waiting, is_left) in [(left, true), (right, false)] {
            let ranges: Vec<(i64, i64)> = self
                .rows
                .iter()
                .map(|rows| self.wanted(rows, is_left))
                .collect();
            let rows = &mut self.rows;
            waiting.find(tx, &self.keys, &ranges, &mut |key, time, found| {
                let found = found.into_iter().map(|row| Candidate {
                    time,
                    row,
                    is_new: false,
                    has_changed: false,
                });
                rows[key].side_mut(is_left).extend(found);
            })?;
        }
        for rows in &mut self.rows {
            // The sort is stable: rows of one time and kind stay in their order.
            rows.left.sort_by_key(|row| (row.time, row.is_new));
            rows.right.sort_by_key(|row| (row.time, row.is_new));
        }
        Ok(())
    }

    /// Returns the times between which the waiting rows of a key's side are needed.
    fn wanted(&self, rows: &KeyRows, is_left: bool) -> (i64, i64) {
        let (earlier, later, own, other) = if is_left {
            (self.spec.after, self.spec.before, &rows.left, &rows.right)
        } else {
            (self.spec.before, self.spec.after, &rows.right, &rows.left)
        };
        let times = |rows: &[Candidate]| {
            let new = leading_new(rows);
            Some((new.first()?.time, new.last()?.time))
        };
        let other = times(other)
            .map(|(first, last)| (first.saturating_sub(earlier), last.saturating_add(later)));
        match (times(own), other) {
            (Some(own), Some(other)) => (own.0.min(other.0), own.1.max(other.1)),
            // A key has new rows of at least one side.
            (own, other) => own.or(other).unwrap_or((i64::MAX, i64::MIN)),
        }
    }

    /// Sends all pairs that have a new row, and puts the changed records into the waiting rows.
    /// Returns the number of pairs.
    pub fn run(
        mut self,
        writer: &mut JoinedRowWriter<'_>,
        left: &mut WaitingRows,
        right: &mut WaitingRows,
    ) -> Result<u64> {
        let mut pairs = 0;
        for (key, rows) in self.keys.iter().zip(&mut self.rows) {
            pairs += rows.emit_pairs(key, self.spec, writer)?;
            put_changed(left, key, std::mem::take(&mut rows.left));
            put_changed(right, key, std::mem::take(&mut rows.right));
        }
        Ok(pairs)
    }
}

/// Returns the new rows of a side. Until the side is sorted, they come before its waiting rows.
fn leading_new(rows: &[Candidate]) -> &[Candidate] {
    &rows[..rows.iter().take_while(|row| row.is_new).count()]
}

impl KeyRows {
    fn side_mut(&mut self, is_left: bool) -> &mut Vec<Candidate> {
        if is_left {
            &mut self.left
        } else {
            &mut self.right
        }
    }

    fn emit_pairs(
        &mut self,
        key: &[u8],
        spec: &JoinWindowSpec,
        writer: &mut JoinedRowWriter<'_>,
    ) -> Result<u64> {
        let Self { left, right } = self;
        let mut pairs = 0;
        let mut pair = |ours: &mut Candidate, theirs: &mut Candidate| {
            pairs += 1;
            for (row, is_left) in [(&mut *ours, true), (&mut *theirs, false)] {
                // Only sides whose unmatched rows go out must record the match.
                if spec.how.keeps_unmatched(is_left) && !row.row.matched {
                    row.row.matched = true;
                    row.has_changed = true;
                }
            }
            writer.push(
                key,
                JoinedSide::row(Some(ours.time), &ours.row.payload),
                JoinedSide::row(Some(theirs.time), &theirs.row.payload),
            )
        };
        for ours in left.iter_mut().filter(|row| row.is_new) {
            for theirs in between(
                right,
                ours.time.saturating_sub(spec.before),
                ours.time.saturating_add(spec.after),
            ) {
                pair(ours, theirs)?;
            }
        }
        for theirs in right.iter_mut().filter(|row| row.is_new) {
            let waiting = between(
                left,
                theirs.time.saturating_sub(spec.after),
                theirs.time.saturating_add(spec.before),
            );
            for ours in waiting.iter_mut().filter(|row| !row.is_new) {
                pair(ours, theirs)?;
            }
        }
        Ok(pairs)
    }
}

/// Returns the rows with times in `[from, to]`.
fn between(rows: &mut [Candidate], from: i64, to: i64) -> &mut [Candidate] {
    let first = rows.partition_point(|row| row.time < from);
    let end = rows.partition_point(|row| row.time <= to);
    &mut rows[first..end.max(first)]
}

/// Puts the changed records of a key into the waiting rows of its side.
fn put_changed(waiting: &mut WaitingRows, key: &[u8], rows: Vec<Candidate>) {
    let mut rows = rows.into_iter().peekable();
    while let Some(first) = rows.next() {
        let (time, mut has_changed) = (first.time, first.has_changed);
        let mut record = vec![first.row];
        while let Some(row) = rows.next_if(|row| row.time == time) {
            has_changed |= row.has_changed;
            record.push(row.row);
        }
        if has_changed {
            waiting.put(key, time, record);
        }
    }
}
