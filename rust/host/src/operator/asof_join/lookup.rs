//! One batch of ordered rows through the store.

use std::ops::Range;

use holdfast_core::{Applied, Op, Result, Timestamp, Transaction, VersionedStore};
use xxhash_rust::xxh3::Xxh3Default;

use crate::operator::Counts;
use crate::operator::batch::{BATCH_BYTES, BATCH_ROWS, ranges};
use crate::operator::output::Right;
use crate::operator::rows::{Input, Layout, Place, Rows};

/// So many rows are looked up at first: how large what they find is shows then.
const FIRST_ROWS: usize = 256;

/// What reads of the table have found, by number. Reused from batch to batch.
pub struct Found {
    /// A version's time, and where its value lies in `bytes`.
    versions: Vec<Option<(i64, Range<usize>)>>,
    bytes: Vec<u8>,
    /// How many rows to look up next.
    room: usize,
}

impl Default for Found {
    fn default() -> Self {
        Self { versions: Vec::new(), bytes: Vec::new(), room: FIRST_ROWS }
    }
}

impl Found {
    /// How many rows to look up next, so that what they find is about a batch, going by the last ones. Results do not depend on
    /// it.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Puts and reads in order; each comes with the number that a read finds its version under, below `count`.
    pub fn run(
        &mut self,
        table: &VersionedStore,
        tx: &mut Transaction,
        count: usize,
        ops: Vec<(Op<'_>, usize)>,
        counts: &mut Counts,
    ) -> Result<()> {
        self.bytes.clear();
        self.versions.clear();
        self.versions.resize(count, None);
        let (ops, numbers): (Vec<Op<'_>>, Vec<usize>) = ops.into_iter().unzip();
        let done = ops.len().max(1);
        table.apply_batch(tx, &ops, false, &mut |n, applied| match applied {
            Applied::Put(put) => counts.late += u64::from(!put.accepted),
            Applied::Get(None) => {}
            Applied::Get(Some(version)) => {
                let start = self.bytes.len();
                self.bytes.extend_from_slice(version.value);
                self.versions[numbers[n]] = Some((version.timestamp.0, start..self.bytes.len()));
                counts.matched += 1;
            }
        })?;
        let fitting = BATCH_BYTES / (self.bytes.len() / done).max(1);
        self.room = fitting.clamp(1, BATCH_ROWS.min(4 * done.max(FIRST_ROWS)));
        Ok(())
    }

    /// The time and the value that a read has found.
    pub fn get(&self, number: usize) -> Option<(i64, &[u8])> {
        self.versions[number].as_ref().map(|(time, range)| (*time, &self.bytes[range.clone()]))
    }

    fn iter(&self, numbers: Range<usize>) -> impl Iterator<Item = Option<(i64, &[u8])>> {
        numbers.map(|number| self.get(number))
    }
}

/// The left rows that go out, each with what it matched. Reused from batch to batch.
#[derive(Default)]
pub struct Matches {
    /// The left rows, in order.
    pub rows: Vec<Place>,
    found: Found,
}

impl Matches {
    /// How many rows to look up next.
    pub fn room(&self) -> usize {
        self.found.room()
    }

    /// The rows that go out, batch by batch.
    pub fn batches(&self, rows: &Rows) -> impl Iterator<Item = Range<usize>> {
        ranges(self.rows.len(), |row| rows.row_bytes(self.rows[row]) + self.found.get(row).map_or(0, |(_, value)| value.len()))
    }

    /// What these rows have matched, column by column.
    pub fn right(&self, layout: &Layout, numbers: Range<usize>) -> Result<Right> {
        let values = self.found.iter(numbers.clone()).map(|found| found.map(|(_, value)| value));
        let times = self.found.iter(numbers).map(|found| found.map(|(time, _)| time));
        Ok(Right { values: layout.right_codec.decode(values)?, times: times.collect() })
    }

    /// Adds the output rows, in order, to a digest.
    pub fn digest(&self, inputs: &[Input], digest: &mut Xxh3Default) {
        for (place, found) in self.rows.iter().zip(self.found.iter(0..self.rows.len())) {
            let (time, value) = found.unzip();
            // Fixed width first: with the value's length in it, no two outputs give the same bytes.
            let mut fixed = [0; 33];
            fixed[..16].copy_from_slice(&inputs[place.input()].hashes[place.row()].to_be_bytes());
            fixed[16] = u8::from(value.is_some());
            fixed[17..25].copy_from_slice(&time.unwrap_or(0).to_be_bytes());
            fixed[25..].copy_from_slice(&(value.map_or(0, <[u8]>::len) as u64).to_be_bytes());
            digest.update(&fixed);
            digest.update(value.unwrap_or_default());
        }
    }

    /// Leaves out the left rows that matched nothing.
    pub fn drop_unmatched(&mut self) {
        let mut kept = self.found.versions.iter().map(Option::is_some);
        self.rows.retain(|_| kept.next().unwrap_or(false));
        self.found.versions.retain(Option::is_some);
    }
}

/// Puts right rows, reads for left rows, in order.
pub fn apply(
    table: &VersionedStore,
    tx: &mut Transaction,
    rows: &Rows,
    places: &[Place],
    matches: &mut Matches,
    counts: &mut Counts,
) -> Result<()> {
    let Matches { rows: lefts, found } = matches;
    lefts.clear();
    let mut ops = Vec::with_capacity(places.len());
    for place in places {
        let (input, row) = (&rows.inputs[place.input()], place.row());
        let (key, time) = (input.keys.get(row), input.time(row).map(Timestamp));
        match (key, time) {
            (Some(key), Some(as_of)) if place.is_left() => {
                ops.push((Op::Get { key, as_of }, lefts.len()));
                lefts.push(*place);
            }
            (Some(key), Some(timestamp)) => {
                let value = (!input.is_deleted(row)).then(|| rows.payload(*place));
                ops.push((Op::Put { key, value, timestamp }, usize::MAX));
            }
            // Without key or time: a left row, since such right rows were left out. It matches nothing.
            _ => lefts.push(*place),
        }
    }
    found.run(table, tx, lefts.len(), ops, counts)
}
