//! The rows of one side of a key, in blocks of a file.
//!
//! ```text
//! block    row, row, …
//! row      time, 8 bytes | 1 if it came in this epoch, else 0 | its record (`waiting_rows/`)
//! ```

use std::ops::Range;
use std::path::Path;

use holdfast_core::Result;

use crate::operator::temporary_file::TemporaryFile;
use crate::operator::waiting_rows::{WaitingRow, push_row, split_row};

/// About how many bytes a block has.
const BLOCK_BYTES: usize = 16 << 10;

/// Maximum number of blocks in a cache.
const CACHED_BLOCKS: usize = 32;

/// A row with its time.
#[derive(Clone, Copy)]
pub struct BlockRow<'a> {
    /// The time.
    pub time: i64,
    /// Whether it came in this epoch.
    pub is_new: bool,
    /// The row.
    pub row: WaitingRow<'a>,
}

/// A function that takes a row.
pub type VisitRow<'a> = dyn FnMut(BlockRow<'_>) -> Result<()> + 'a;

/// Rows in the order of time. All blocks but the last one are in a file.
pub struct RowBlocks {
    file: TemporaryFile,
    blocks: Vec<Block>,
    /// The last block.
    open: Vec<u8>,
}

/// Where a block is, and what it has.
struct Block {
    first: i64,
    last: i64,
    has_stored: bool,
    /// Nothing if it is the last block.
    place: Range<u64>,
}

/// The blocks of one side that were read last.
#[derive(Default)]
pub struct BlockCache {
    blocks: [CachedBlock; CACHED_BLOCKS],
}

#[derive(Default)]
struct CachedBlock {
    number: Option<usize>,
    bytes: Vec<u8>,
}

impl RowBlocks {
    /// Starts without rows. The file is in this folder.
    pub fn new(folder: &Path) -> Self {
        Self {
            file: TemporaryFile::new(folder),
            blocks: Vec::new(),
            open: Vec::new(),
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The times of the first and of the last row.
    pub fn times(&self) -> Option<(i64, i64)> {
        Some((self.blocks.first()?.first, self.blocks.last()?.last))
    }

    /// Whether a row did not come in this epoch.
    pub fn has_stored(&self) -> bool {
        self.blocks.iter().any(|block| block.has_stored)
    }

    /// Adds a row, which is not older than the row before.
    ///
    /// # Errors
    /// `InvalidValue` for a row of more than 4 GiB; `Io` if the disk is full or fails.
    pub fn push(&mut self, row: BlockRow<'_>) -> Result<()> {
        if self.open.len() >= BLOCK_BYTES
            && let Some(block) = self.blocks.last_mut()
        {
            block.place = self.file.append(&self.open)?;
            self.open.clear();
        }
        if self.open.is_empty() {
            self.blocks.push(Block {
                first: row.time,
                last: row.time,
                has_stored: false,
                place: 0..0,
            });
        }
        if let Some(block) = self.blocks.last_mut() {
            block.last = row.time;
            block.has_stored |= !row.is_new;
        }
        self.open.extend_from_slice(&row.time.to_be_bytes());
        self.open.push(u8::from(row.is_new));
        push_row(row.row, &mut self.open)
    }

    /// Passes all rows to `visit`, in order.
    ///
    /// # Errors
    /// `Io` if the disk fails; those of `visit`.
    pub fn for_each(&self, cache: &mut BlockCache, visit: &mut VisitRow<'_>) -> Result<()> {
        self.for_each_between(cache, (i64::MIN, i64::MAX), visit)
    }

    /// Passes the rows between two times, both inclusive, to `visit`, in order.
    ///
    /// # Errors
    /// As [`Self::for_each`].
    pub fn for_each_between(
        &self,
        cache: &mut BlockCache,
        times: (i64, i64),
        visit: &mut VisitRow<'_>,
    ) -> Result<()> {
        self.pass(cache, times, |_| true, visit)
    }

    /// As [`Self::for_each_between`], only for rows that did not come in this epoch.
    ///
    /// # Errors
    /// As [`Self::for_each`].
    pub fn for_each_stored(
        &self,
        cache: &mut BlockCache,
        times: (i64, i64),
        visit: &mut VisitRow<'_>,
    ) -> Result<()> {
        self.pass(cache, times, |block| block.has_stored, &mut |row| {
            if row.is_new { Ok(()) } else { visit(row) }
        })
    }

    fn pass(
        &self,
        cache: &mut BlockCache,
        (from, to): (i64, i64),
        is_wanted: impl Fn(&Block) -> bool,
        visit: &mut VisitRow<'_>,
    ) -> Result<()> {
        let start = self.blocks.partition_point(|block| block.last < from);
        for (number, block) in self.blocks.iter().enumerate().skip(start) {
            if block.first > to {
                break;
            }
            if !is_wanted(block) {
                continue;
            }
            let rows = rows_of(self.bytes(number, cache)?);
            let is_before = |row: &BlockRow<'_>| row.time < from;
            for row in rows.skip_while(is_before).take_while(|row| row.time <= to) {
                visit(row)?;
            }
        }
        Ok(())
    }

    /// Whether there is a row between two times, both inclusive.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn has_between(&self, cache: &mut BlockCache, (from, to): (i64, i64)) -> Result<bool> {
        let number = self.blocks.partition_point(|block| block.last < from);
        let Some(block) = self.blocks.get(number) else {
            return Ok(false);
        };
        if block.first >= from {
            return Ok(block.first <= to);
        }
        if block.last <= to {
            return Ok(true);
        }
        let mut rows = rows_of(self.bytes(number, cache)?);
        Ok(rows.any(|row| (from..=to).contains(&row.time)))
    }

    /// The bytes of a block.
    fn bytes<'a>(&'a self, number: usize, cache: &'a mut BlockCache) -> Result<&'a [u8]> {
        if number + 1 == self.blocks.len() {
            return Ok(&self.open);
        }
        let cached = &mut cache.blocks[number % CACHED_BLOCKS];
        if cached.number != Some(number) {
            let place = &self.blocks[number].place;
            cached.number = None;
            cached.bytes.resize((place.end - place.start) as usize, 0);
            self.file.read(place.start, &mut cached.bytes)?;
            cached.number = Some(number);
        }
        Ok(&cached.bytes)
    }
}

/// Returns the rows of a block.
fn rows_of(mut block: &[u8]) -> impl Iterator<Item = BlockRow<'_>> {
    std::iter::from_fn(move || {
        let (time, rest) = block.split_first_chunk()?;
        let (is_new, rest) = rest.split_first()?;
        let (row, rest) = split_row(rest)?;
        block = rest;
        Some(BlockRow {
            time: i64::from_be_bytes(*time),
            is_new: *is_new != 0,
            row,
        })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Time, whether it is new, and how many bytes it has.
    type Row = (i64, bool, usize);

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn blocks_equal_a_list_of_rows(
            mut rows in prop::collection::vec((-9..9_i64, any::<bool>(), 0..BLOCK_BYTES), 0..90),
            ranges in prop::collection::vec((-11..11_i64, -11..11_i64), 20),
        ) {
            rows.sort_by_key(|row| row.0);
            let folder = tempfile::tempdir().expect("a folder");
            let mut blocks = RowBlocks::new(folder.path());
            for (n, (time, is_new, bytes)) in rows.iter().copied().enumerate() {
                let payload = vec![n as u8; bytes];
                let row = WaitingRow { matched: n % 2 == 0, payload: &payload };
                blocks.push(BlockRow { time, is_new, row }).expect("adds");
            }
            let ends = rows.first().zip(rows.last()).map(|(first, last)| (first.0, last.0));
            prop_assert_eq!(blocks.times(), ends);
            prop_assert_eq!(blocks.is_empty(), rows.is_empty());
            prop_assert_eq!(blocks.has_stored(), rows.iter().any(|row| !row.1));
            let (mut cache, all) = (BlockCache::default(), (i64::MIN, i64::MAX));
            for times in ranges.into_iter().chain([all]) {
                let is_between = |row: &Row| (times.0..=times.1).contains(&row.0);
                let mut found: Vec<Row> = Vec::new();
                blocks.for_each_between(&mut cache, times, &mut |row| {
                    found.push((row.time, row.is_new, row.row.payload.len()));
                    Ok(())
                }).expect("reads");
                let expected: Vec<Row> = rows.iter().copied().filter(is_between).collect();
                prop_assert_eq!(&found, &expected);
                let has_any = blocks.has_between(&mut cache, times).expect("reads");
                prop_assert_eq!(has_any, !expected.is_empty());
                found.clear();
                blocks.for_each_stored(&mut cache, times, &mut |row| {
                    found.push((row.time, row.is_new, row.row.payload.len()));
                    Ok(())
                }).expect("reads");
                let stored: Vec<Row> = expected.into_iter().filter(|row| !row.1).collect();
                prop_assert_eq!(found, stored);
            }
            let mut number = 0_usize;
            blocks.for_each(&mut cache, &mut |row| {
                let is_it = row.row.payload.iter().all(|byte| *byte == number as u8);
                assert!(is_it && row.row.matched == number.is_multiple_of(2), "row {number}");
                number += 1;
                Ok(())
            }).expect("reads");
            prop_assert_eq!(number, rows.len());
        }
    }
}
