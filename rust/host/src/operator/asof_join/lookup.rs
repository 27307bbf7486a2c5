//! One batch of ordered rows through the store.

use std::ops::Range;

use holdfast_core::{Applied, Op, Result, Timestamp, Transaction, VersionedStore};
use xxhash_rust::xxh3::Xxh3Default;

use crate::operator::Counts;
use crate::operator::output::Right;
use crate::operator::rows::{Input, Layout, Place, Rows};

/// The left rows that go out, each with what it matched. Reused from batch to batch.
#[derive(Default)]
pub struct Matches {
    /// The left rows, in order.
    pub rows: Vec<Place>,
    /// Where the matched right row's value lies in `bytes`, and its time.
    found: Vec<Option<(Range<usize>, i64)>>,
    bytes: Vec<u8>,
}

impl Matches {
    /// What was matched, column by column.
    pub fn right(&self, layout: &Layout) -> Result<Right> {
        Ok(Right { values: layout.right_codec.decode(self.values())?, times: self.times().collect() })
    }

    fn values(&self) -> impl Iterator<Item = Option<&[u8]>> {
        self.found.iter().map(|found| found.as_ref().map(|(range, _)| &self.bytes[range.clone()]))
    }

    fn times(&self) -> impl Iterator<Item = Option<i64>> {
        self.found.iter().map(|found| found.as_ref().map(|(_, time)| *time))
    }

    /// Adds the output rows, in order, to a digest.
    pub fn digest(&self, inputs: &[Input], digest: &mut Xxh3Default) {
        for ((place, value), time) in self.rows.iter().zip(self.values()).zip(self.times()) {
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

    fn clear(&mut self) {
        self.rows.clear();
        self.found.clear();
        self.bytes.clear();
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
    matches.clear();
    let mut ops = Vec::with_capacity(places.len());
    for place in places {
        let (input, row) = (&rows.inputs[place.input()], place.row());
        let (key, time) = (input.keys.get(row), input.time(row).map(Timestamp));
        match (key, time) {
            (Some(key), Some(as_of)) if place.is_left() => {
                matches.rows.push(*place);
                matches.found.push(None);
                ops.push((Op::Get { key, as_of }, matches.rows.len() - 1));
            }
            (Some(key), Some(timestamp)) => {
                let value = (!input.is_deleted(row)).then(|| rows.payload(*place));
                ops.push((Op::Put { key, value, timestamp }, usize::MAX));
            }
            // Without key or time: a left row, since such right rows were left out. It matches nothing.
            _ => {
                matches.rows.push(*place);
                matches.found.push(None);
            }
        }
    }
    let (ops, slots): (Vec<Op<'_>>, Vec<usize>) = ops.into_iter().unzip();
    let Matches { found, bytes, .. } = matches;
    table.apply_batch(tx, &ops, false, &mut |n, applied| match applied {
        Applied::Put(put) => counts.late += u64::from(!put.accepted),
        Applied::Get(None) => {}
        Applied::Get(Some(version)) => {
            let start = bytes.len();
            bytes.extend_from_slice(version.value);
            found[slots[n]] = Some((start..bytes.len(), version.timestamp.0));
            counts.matched += 1;
        }
    })?;
    Ok(())
}

impl Matches {
    /// Leaves out the left rows that matched nothing.
    pub fn drop_unmatched(&mut self) {
        let mut kept = self.found.iter().map(Option::is_some);
        self.rows.retain(|_| kept.next().unwrap_or(false));
        self.found.retain(Option::is_some);
    }
}
