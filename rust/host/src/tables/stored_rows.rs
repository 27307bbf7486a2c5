//! Rows as a store has them: bytes and times.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::codec::byte_list::ByteList;
use crate::memory::budget::Share;

/// The most rows of a batch.
pub const BATCH_ROWS: usize = 10_000;
/// The bytes of rows after which a batch is full, if there is memory for them.
pub const BATCH_BYTES: usize = 4 << 20;
/// The bytes of a row without its key and value.
const ROW_BYTES: usize = size_of::<RowTimes>() + 2 * size_of::<usize>() + 1;

/// A read usually holds no more than this many times the bytes of a batch at once: the rows of a
/// batch, their columns, the message that is being sent, and the next batch. A larger row needs
/// more, and so does a read of keys whose values are larger than expected.
const HELD: usize = 4;
/// The bytes after which a batch is full if there is hardly any memory.
const MIN_BATCH_BYTES: usize = 16 << 10;

/// One read may take at most the memory of all reads divided by this, because a reader that does
/// not accept its rows occupies their memory.
const READS: usize = 8;

/// Returns after how many bytes the next batch of a read is full, and takes the memory for it. If
/// there is little memory, the batches are small; no read waits.
pub fn batch_bytes(memory: &mut Share) -> usize {
    let room = memory.room().min(memory.limit() / READS);
    let bytes = (room / HELD).clamp(MIN_BATCH_BYTES, BATCH_BYTES);
    memory.set(HELD * bytes);
    bytes
}

/// A batch of a store's rows, in order. A row without a value stands for a key that was not found
/// or, among changes, for a deletion.
pub struct StoredRows {
    most_bytes: usize,
    keys: ByteList,
    values: ByteList,
    has_value: Vec<bool>,
    times: Vec<RowTimes>,
}

/// The times of a row, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowTimes {
    /// A version's begin, a window's or a session's start, or a timestamped row's time.
    pub begin: Option<i64>,
    /// A version's end: none if it is the newest, and none among changes. A window's or a session's
    /// end.
    pub end: Option<i64>,
    /// The time of a window's value, in a store with timestamps.
    pub timestamp: Option<i64>,
}

impl Default for StoredRows {
    fn default() -> Self {
        Self {
            most_bytes: BATCH_BYTES,
            keys: ByteList::default(),
            values: ByteList::default(),
            has_value: Vec::new(),
            times: Vec::new(),
        }
    }
}

impl StoredRows {
    /// Rows of keys, one for each.
    pub fn of_keys<'a>(
        keys: &[Option<impl AsRef<[u8]>>],
        found: impl Iterator<Item = Option<FoundParts<'a>>>,
        most_bytes: usize,
    ) -> Self {
        let mut rows = Self {
            most_bytes,
            ..Self::default()
        };
        for (key, found) in keys.iter().zip(found) {
            let key = key.as_ref().map_or(&[][..], AsRef::as_ref);
            match found {
                Some((value, times)) => rows.push(key, Some(value), times),
                None => rows.push(key, None, RowTimes::default()),
            }
        }
        rows
    }

    /// Removes all rows, and sets after how many bytes the batch is full.
    pub fn restart(&mut self, most_bytes: usize) {
        self.clear();
        self.most_bytes = most_bytes;
        // Frees memory after a large row, or if less is available now.
        for list in [&mut self.keys, &mut self.values] {
            list.shrink_to(2 * most_bytes);
        }
    }

    /// After how many bytes the batch is full.
    pub fn most_bytes(&self) -> usize {
        self.most_bytes
    }

    /// Adds a row.
    pub fn push(&mut self, key: &[u8], value: Option<&[u8]>, times: RowTimes) {
        self.keys.push(key);
        self.values.push(value.unwrap_or_default());
        self.has_value.push(value.is_some());
        self.times.push(times);
    }

    /// Removes all rows.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.values.clear();
        self.has_value.clear();
        self.times.clear();
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Whether no more rows fit into the batch.
    pub fn is_full(&self) -> bool {
        let bytes = self.keys.total_bytes() + self.values.total_bytes();
        self.len() >= BATCH_ROWS || bytes + self.len() * ROW_BYTES >= self.most_bytes
    }

    /// The keys.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|n| self.keys.get(n))
    }

    /// The values.
    pub fn values(&self) -> impl Iterator<Item = Option<&[u8]>> {
        (0..self.len()).map(|n| self.has_value[n].then(|| self.values.get(n)))
    }

    /// The times.
    pub fn times(&self) -> &[RowTimes] {
        &self.times
    }
}

/// The row of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundRow {
    #[serde(with = "serde_bytes")]
    value: Vec<u8>,
    times: RowTimes,
}

/// The value of a row that was found, and its times.
pub type FoundParts<'a> = (&'a [u8], RowTimes);

impl FoundRow {
    /// The value and the times.
    pub fn parts(&self) -> FoundParts<'_> {
        (&self.value, self.times)
    }
}

/// What a read of keys has found, by the number of the key.
pub struct FoundRows {
    /// End to end, in the order in which they were found.
    values: Vec<u8>,
    rows: Vec<Option<(Range<usize>, RowTimes)>>,
    most: usize,
    bytes: usize,
}

impl FoundRows {
    /// Makes a result without rows for this many keys. Values beyond `most` bytes are only counted.
    /// The value of a single key is always stored.
    pub fn new(keys: usize, most: usize) -> Self {
        Self {
            values: Vec::new(),
            rows: vec![None; keys],
            most: if keys == 1 { usize::MAX } else { most },
            bytes: 0,
        }
    }

    /// Adds the row of a key.
    pub fn set(&mut self, key: usize, value: &[u8], times: RowTimes) {
        self.bytes = self.bytes.saturating_add(value.len());
        if self.bytes <= self.most {
            let start = self.values.len();
            self.values.extend_from_slice(value);
            self.rows[key] = Some((start..self.values.len(), times));
        }
    }

    /// The bytes of all values that were found, also of those that were only counted.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether some values were only counted.
    pub fn is_exceeded(&self) -> bool {
        self.bytes > self.most
    }

    /// After how many bytes values are only counted.
    pub fn most(&self) -> usize {
        self.most
    }

    /// The rows, one for each key.
    pub fn rows(&self) -> impl Iterator<Item = Option<FoundParts<'_>>> {
        let rows = self.rows.iter().map(Option::as_ref);
        rows.map(|row| row.map(|(range, times)| (&self.values[range.clone()], *times)))
    }

    /// The rows, each with a value of its own.
    pub fn to_rows(&self) -> Vec<Option<FoundRow>> {
        let own = |(value, times): FoundParts<'_>| FoundRow {
            value: value.to_vec(),
            times,
        };
        self.rows().map(|row| row.map(own)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::budget::Budget;

    #[test]
    fn batches_are_smaller_if_many_reads_share_the_memory() {
        let budget = Budget::new(32 << 20);
        let mut reads: Vec<Share> = (0..50).map(|_| budget.share()).collect();
        let bytes: Vec<usize> = reads.iter_mut().map(batch_bytes).collect();
        assert_eq!(bytes[0], 1 << 20);
        assert!(bytes[49] < (32 << 20) / 4 / 25, "{bytes:?}");
        assert!(budget.held() <= 2 * budget.limit());
        let budget = Budget::new(0);
        assert_eq!(batch_bytes(&mut budget.share()), MIN_BATCH_BYTES);
        assert_eq!(
            batch_bytes(&mut Budget::new(usize::MAX).share()),
            BATCH_BYTES
        );
    }

    #[test]
    fn batch_is_full_after_its_bytes_and_the_next_may_be_smaller() {
        let mut rows = StoredRows::default();
        rows.restart(1_000);
        rows.push(b"k", Some(&[0; 500]), RowTimes::default());
        assert!(!rows.is_full());
        rows.push(b"k", Some(&[0; 500]), RowTimes::default());
        assert!(rows.is_full());
        rows.restart(100);
        assert_eq!(rows.len(), 0);
        rows.push(b"k", Some(&[0; 100]), RowTimes::default());
        assert!(rows.is_full());
    }
}
