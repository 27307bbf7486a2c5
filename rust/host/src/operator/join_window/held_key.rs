//! A key whose rows may not fit in memory together: they may be in several parts of the input, or
//! match too many waiting rows.
//!
//! Its rows are in files, with the waiting rows that they may match. The pairs are the same, in the
//! same order, as those of `matching.rs`.

use std::mem;
use std::ops::Range;
use std::path::{Path, PathBuf};

use holdfast_core::{Result, Transaction};

use super::new_rows::NewRows;
use super::row_blocks::{BlockCache, BlockRow, RowBlocks};
use super::spec::JoinWindowSpec;
use super::waiting_side::WaitingSide;
use crate::operator::input::InputRows;
use crate::operator::output::{JoinedRowWriter, JoinedSide};
use crate::operator::waiting_rows::{RowRequest, WaitingRow};

/// The new rows of a key.
pub struct HeldKey {
    key: Vec<u8>,
    folder: PathBuf,
    left: RowBlocks,
    right: RowBlocks,
}

/// The rows of one side, which are read in order or by time.
struct HeldSide {
    rows: RowBlocks,
    cache: BlockCache,
}

/// The rows of one key and one time.
#[derive(Default)]
struct HeldRecord {
    time: i64,
    /// For each row, whether it has been matched, and its payload in `payloads`.
    rows: Vec<(bool, Range<usize>)>,
    payloads: Vec<u8>,
    has_changed: bool,
}

impl HeldKey {
    /// A key without rows. Its rows go to files in this folder.
    pub fn new(key: &[u8], folder: &Path) -> Self {
        Self {
            key: key.to_vec(),
            folder: folder.to_owned(),
            left: RowBlocks::new(folder),
            right: RowBlocks::new(folder),
        }
    }

    /// Whether it is this key.
    pub fn is(&self, key: &[u8]) -> bool {
        self.key == key
    }

    /// Adds the rows of a key of a part, which are not older than those before.
    ///
    /// # Errors
    /// As [`RowBlocks::push`].
    pub fn add(&mut self, input: &InputRows, new: &NewRows, number: u32) -> Result<()> {
        for (is_left, side) in [(true, &mut self.left), (false, &mut self.right)] {
            for row in new.side(number, is_left) {
                side.push(BlockRow {
                    time: row.time,
                    is_new: true,
                    row: WaitingRow {
                        matched: false,
                        payload: input.payload(row.place),
                    },
                })?;
            }
        }
        Ok(())
    }

    /// Sends all pairs that have a new row, and puts the changed records into the waiting rows.
    /// Returns the number of pairs.
    ///
    /// # Errors
    /// `Io` if the disk is full or fails; those of the store and of the worker.
    pub fn join(
        self,
        spec: &JoinWindowSpec,
        tx: &mut Transaction,
        [left, right]: &mut [WaitingSide; 2],
        writer: &mut JoinedRowWriter<'_>,
    ) -> Result<u64> {
        let times = (self.left.times(), self.right.times());
        let left_times = spec.needed(true, times.0, times.1);
        let right_times = spec.needed(false, times.1, times.0);
        let (key, folder) = (&self.key[..], self.folder.as_path());
        let mut lefts = HeldSide::new(self.left, folder, left, tx, key, left_times)?;
        let mut rights = HeldSide::new(self.right, folder, right, tx, key, right_times)?;
        let pairs = emit_pairs(key, spec, &mut lefts, &mut rights, writer)?;
        put_changed(key, spec, left, &mut lefts, &mut rights)?;
        put_changed(key, spec, right, &mut rights, &mut lefts)?;
        Ok(pairs)
    }
}

impl HeldSide {
    /// The new rows of a side with its waiting rows between two times. At equal times, waiting rows
    /// come before new ones.
    fn new(
        new: RowBlocks,
        folder: &Path,
        waiting: &WaitingSide,
        tx: &mut Transaction,
        key: &[u8],
        times: Option<(i64, i64)>,
    ) -> Result<Self> {
        let (mut rows, mut cache) = (RowBlocks::new(folder), BlockCache::default());
        let mut from = i64::MIN;
        if let Some(times) = times {
            let request = RowRequest {
                number: 0,
                key,
                from: times.0,
                to: times.1,
            };
            waiting
                .rows
                .for_each_stored(tx, &request, &mut |_, time, row| {
                    if let Some(before) = time.checked_sub(1) {
                        let earlier = (from, before);
                        new.for_each_between(&mut cache, earlier, &mut |row| rows.push(row))?;
                    }
                    from = time;
                    rows.push(BlockRow {
                        time,
                        is_new: false,
                        row,
                    })
                })?;
        }
        if rows.is_empty() {
            return Ok(Self { rows: new, cache });
        }
        new.for_each_between(&mut cache, (from, i64::MAX), &mut |row| rows.push(row))?;
        Ok(Self {
            rows,
            cache: BlockCache::default(),
        })
    }
}

/// Sends the pairs of each new left row, then those of each new right row with waiting left rows.
fn emit_pairs(
    key: &[u8],
    spec: &JoinWindowSpec,
    left: &mut HeldSide,
    right: &mut HeldSide,
    writer: &mut JoinedRowWriter<'_>,
) -> Result<u64> {
    let mut pairs = 0;
    let mut pair = |ours: BlockRow<'_>, theirs: BlockRow<'_>| {
        pairs += 1;
        writer.push(key, side_of(ours), side_of(theirs))
    };
    left.rows.for_each(&mut left.cache, &mut |ours| {
        if !ours.is_new {
            return Ok(());
        }
        let matches = spec.matches_of(true, ours.time);
        right
            .rows
            .for_each_between(&mut right.cache, matches, &mut |theirs| pair(ours, theirs))
    })?;
    if left.rows.has_stored() {
        right.rows.for_each(&mut right.cache, &mut |theirs| {
            if !theirs.is_new {
                return Ok(());
            }
            let matches = spec.matches_of(false, theirs.time);
            left.rows
                .for_each_stored(&mut left.cache, matches, &mut |ours| pair(ours, theirs))
        })?;
    }
    Ok(pairs)
}

fn side_of(row: BlockRow<'_>) -> JoinedSide<'_> {
    JoinedSide::row(Some(row.time), row.row.payload)
}

/// Puts the changed records of a key into the waiting rows of its side.
fn put_changed(
    key: &[u8],
    spec: &JoinWindowSpec,
    side: &mut WaitingSide,
    own: &mut HeldSide,
    other: &mut HeldSide,
) -> Result<()> {
    // Only sides whose unmatched rows go out must record a match.
    let (is_left, records_matches) = (side.is_left, spec.how.keeps_unmatched(side.is_left));
    let mut record = HeldRecord::default();
    own.rows.for_each(&mut own.cache, &mut |row| {
        if row.time != record.time {
            mem::take(&mut record).put(key, side)?;
            record.time = row.time;
        }
        // Waiting rows of both sides that match have been matched in an earlier epoch.
        let matched = row.row.matched
            || (records_matches
                && other
                    .rows
                    .has_between(&mut other.cache, spec.matches_of(is_left, row.time))?);
        record.has_changed |= row.is_new || matched != row.row.matched;
        let start = record.payloads.len();
        record.payloads.extend_from_slice(row.row.payload);
        record.rows.push((matched, start..record.payloads.len()));
        Ok(())
    })?;
    record.put(key, side)
}

impl HeldRecord {
    /// Puts the record into the waiting rows of its side, if it has changed.
    fn put(self, key: &[u8], side: &mut WaitingSide) -> Result<()> {
        if !self.has_changed {
            return Ok(());
        }
        let rows = self.rows.into_iter().map(|(matched, payload)| WaitingRow {
            matched,
            payload: &self.payloads[payload],
        });
        side.put(key, self.time, rows)
    }
}
