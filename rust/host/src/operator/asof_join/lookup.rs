//! Applies one batch of ordered rows to the table: puts of right rows, look-ups of left rows.

use std::ops::Range;

use holdfast_core::{Applied, Op, Result, Timestamp, Transaction, VersionedStore};
use xxhash_rust::xxh3::Xxh3Default;

use crate::operator::batch_size::{BATCH_BYTES, BATCH_ROWS, ranges};
use crate::operator::input::{InputBatch, InputLayout, InputRows, RowPlace};
use crate::operator::output::{MatchedRight, digest_matched_row};
use crate::protocol::Counts;

/// The number of look-ups that are made at first, before the size of found versions is known.
const FIRST_ROWS: usize = 256;

/// The versions that reads of the table have found, by number. Reused from batch to batch.
pub struct FoundVersions {
    /// A version's time, and where its value is in `bytes`.
    versions: Vec<Option<(i64, Range<usize>)>>,
    bytes: Vec<u8>,
    /// The number of look-ups to make next.
    room: usize,
}

impl Default for FoundVersions {
    fn default() -> Self {
        Self {
            versions: Vec::new(),
            bytes: Vec::new(),
            room: FIRST_ROWS,
        }
    }
}

impl FoundVersions {
    /// Returns how many of these rows to process next. The versions that they find should fill
    /// about one batch. The estimate comes from the last look-ups that found a version. Results do
    /// not depend on it.
    pub fn next<T>(&self, rows: &[T], is_lookup: impl Fn(&T) -> bool) -> usize {
        let mut lookups = 0;
        let fits = |row: &&T| {
            lookups += usize::from(is_lookup(row));
            lookups <= self.room
        };
        rows.iter().take(BATCH_ROWS).take_while(fits).count()
    }

    /// Applies puts and reads in order. Each read has a number below `count`; [`Self::get`] returns
    /// the version that the read of a number has found.
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
        let lookups = ops.iter().filter(|op| matches!(op, Op::Get { .. })).count();
        let mut found = 0_u64;
        table.apply_batch(tx, &ops, false, &mut |n, applied| match applied {
            Applied::Put(put) => counts.late += u64::from(!put.accepted),
            Applied::Get(None) => {}
            Applied::Expired => counts.expired += 1,
            Applied::Get(Some(version)) => {
                let start = self.bytes.len();
                self.bytes.extend_from_slice(version.value);
                self.versions[numbers[n]] = Some((version.timestamp.0, start..self.bytes.len()));
                found += 1;
            }
        })?;
        counts.matched += found;
        // Puts, and look-ups that found nothing, do not show how large found versions are.
        if found > 0 {
            let fitting = BATCH_BYTES / (self.bytes.len() / found as usize).max(1);
            self.room = fitting.clamp(1, BATCH_ROWS.min(4 * lookups.max(FIRST_ROWS)));
        }
        Ok(())
    }

    /// Returns the time and the value that a read has found.
    pub fn get(&self, number: usize) -> Option<(i64, &[u8])> {
        self.versions[number]
            .as_ref()
            .map(|(time, range)| (*time, &self.bytes[range.clone()]))
    }

    fn iter(&self, numbers: Range<usize>) -> impl Iterator<Item = Option<(i64, &[u8])>> {
        numbers.map(|number| self.get(number))
    }
}

/// The left rows that go out, each with the version that it matched, if any. Reused from batch to
/// batch.
#[derive(Default)]
pub struct Matches {
    /// The left rows, in order.
    pub rows: Vec<RowPlace>,
    found: FoundVersions,
}

impl Matches {
    /// Returns how many of these rows to process next.
    pub fn next(&self, places: &[RowPlace]) -> usize {
        self.found.next(places, |place| place.is_left())
    }

    /// Cuts the rows that go out into batches.
    pub fn batches(&self, rows: &InputRows) -> impl Iterator<Item = Range<usize>> {
        ranges(self.rows.len(), |row| {
            rows.row_bytes(self.rows[row]) + self.found.get(row).map_or(0, |(_, value)| value.len())
        })
    }

    /// The versions that these rows have matched, column by column.
    pub fn right(&self, layout: &InputLayout, numbers: Range<usize>) -> Result<MatchedRight> {
        let values = self
            .found
            .iter(numbers.clone())
            .map(|found| found.map(|(_, value)| value));
        let times = self
            .found
            .iter(numbers)
            .map(|found| found.map(|(time, _)| time));
        Ok(MatchedRight {
            values: layout.right_codec.decode(values)?,
            times: times.collect(),
        })
    }

    /// Adds the output rows, in order, to a digest.
    pub fn digest(&self, inputs: &[InputBatch], digest: &mut Xxh3Default) {
        for (place, found) in self.rows.iter().zip(self.found.iter(0..self.rows.len())) {
            digest_matched_row(&inputs[place.input()], place.row(), found, digest);
        }
    }

    /// Removes the left rows that matched nothing.
    pub fn drop_unmatched(&mut self) {
        let mut is_matched = self.found.versions.iter().map(Option::is_some);
        self.rows.retain(|_| is_matched.next().unwrap_or(false));
        self.found.versions.retain(Option::is_some);
    }
}

/// Puts right rows into the table and reads it for left rows, in order. Returns how many left rows
/// have no key or no time.
pub fn apply(
    table: &VersionedStore,
    tx: &mut Transaction,
    rows: &InputRows,
    places: &[RowPlace],
    matches: &mut Matches,
    counts: &mut Counts,
) -> Result<u64> {
    let Matches { rows: lefts, found } = matches;
    lefts.clear();
    let (mut ops, mut unmatchable) = (Vec::with_capacity(places.len()), 0);
    for place in places {
        let (key, time) = (rows.key(*place), rows.time(*place).map(Timestamp));
        match (key, time) {
            (Some(key), Some(as_of)) if place.is_left() => {
                ops.push((Op::Get { key, as_of }, lefts.len()));
                lefts.push(*place);
            }
            (Some(key), Some(timestamp)) => {
                let value = (!rows.is_deleted(*place)).then(|| rows.payload(*place));
                ops.push((
                    Op::Put {
                        key,
                        value,
                        timestamp,
                    },
                    usize::MAX,
                ));
            }
            // A left row without a key or a time, which matches nothing. Right rows without them
            // were left out before.
            _ => {
                unmatchable += 1;
                lefts.push(*place);
            }
        }
    }
    found.run(table, tx, lefts.len(), ops, counts)?;
    Ok(unmatchable)
}

#[cfg(test)]
mod tests {
    use holdfast_core::{Database, DatabaseOptions, StoreKind, StoreSpec};

    use super::*;

    #[test]
    fn only_found_versions_change_how_many_rows_are_looked_up_at_once() {
        let specs = [StoreSpec::new(
            "table",
            StoreKind::Versioned {
                history_retention: 1_000,
                segment_interval: 1_000,
            },
        )];
        let db = Database::open_in_memory(&specs, DatabaseOptions::default()).expect("opens");
        let (table, mut tx) = (
            db.versioned("table").expect("a store"),
            db.begin().expect("begins"),
        );
        let document = vec![0; 1 << 20];
        let keys: Vec<[u8; 8]> = (0..BATCH_ROWS as u64).map(u64::to_be_bytes).collect();
        let puts = |keys: &[[u8; 8]],
                    value: &[u8],
                    table: &VersionedStore,
                    tx: &mut Transaction,
                    found: &mut FoundVersions| {
            let put = |key| {
                (
                    Op::Put {
                        key,
                        value: Some(value),
                        timestamp: Timestamp(1),
                    },
                    usize::MAX,
                )
            };
            found
                .run(
                    table,
                    tx,
                    0,
                    keys.iter().map(|key| put(&key[..])).collect(),
                    &mut Counts::default(),
                )
                .expect("put");
        };
        let gets = |keys: &[[u8; 8]],
                    table: &VersionedStore,
                    tx: &mut Transaction,
                    found: &mut FoundVersions| {
            let ops = keys
                .iter()
                .enumerate()
                .map(|(n, key)| {
                    (
                        Op::Get {
                            key,
                            as_of: Timestamp(1),
                        },
                        n,
                    )
                })
                .collect();
            found
                .run(table, tx, keys.len(), ops, &mut Counts::default())
                .expect("looked up");
        };
        let room = |found: &FoundVersions| found.next(&[true; BATCH_ROWS], |is_lookup| *is_lookup);
        let mut found = FoundVersions::default();
        assert_eq!(
            found.next(&[false; BATCH_ROWS + 1], |is_lookup| *is_lookup),
            BATCH_ROWS,
            "puts are not limited"
        );
        gets(&keys, &table, &mut tx, &mut found);
        puts(&keys, b"small", &table, &mut tx, &mut found);
        assert_eq!(room(&found), FIRST_ROWS, "nothing has been found yet");
        gets(&keys[..FIRST_ROWS], &table, &mut tx, &mut found);
        assert_eq!(room(&found), 4 * FIRST_ROWS);
        puts(&keys[..20], &document, &table, &mut tx, &mut found);
        assert_eq!(room(&found), 4 * FIRST_ROWS);
        gets(&keys[..20], &table, &mut tx, &mut found);
        assert_eq!(room(&found), 16, "as many as fill a batch");
    }
}
