//! Rows as a store has them: bytes and times.

/// The most rows of a batch.
pub const BATCH_ROWS: usize = 10_000;
/// The bytes of keys and values after which a batch is full.
pub const BATCH_BYTES: usize = 4 << 20;

/// A batch of a store's rows, in order. A row without a value stands for a key that was not found.
#[derive(Default)]
pub struct StoredRows {
    keys: ByteList,
    values: ByteList,
    has_value: Vec<bool>,
    times: Vec<RowTimes>,
}

/// The times of a row, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowTimes {
    /// A version's begin, a window's or a session's start, or a timestamped row's time.
    pub begin: Option<i64>,
    /// A version's end, or none if it is the newest; a window's or a session's end.
    pub end: Option<i64>,
    /// The time of a window's value, in a store with timestamps.
    pub timestamp: Option<i64>,
}

/// Byte strings, end to end.
#[derive(Default)]
struct ByteList {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl ByteList {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len());
    }

    fn get(&self, n: usize) -> &[u8] {
        let start = n.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[n]]
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

impl StoredRows {
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
        let bytes = self.keys.bytes.len() + self.values.bytes.len();
        self.len() >= BATCH_ROWS || bytes >= BATCH_BYTES
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

/// What a read of keys has found, by the number of the key.
pub struct FoundRows {
    rows: Vec<Option<(Vec<u8>, RowTimes)>>,
    most: usize,
    bytes: usize,
}

impl FoundRows {
    /// Nothing was found yet for this many keys. Values beyond `most` bytes are only counted; the
    /// value of a single key is always kept.
    pub fn new(keys: usize, most: usize) -> Self {
        Self {
            rows: vec![None; keys],
            most: if keys == 1 { usize::MAX } else { most },
            bytes: 0,
        }
    }

    /// Adds the row of a key.
    pub fn set(&mut self, key: usize, value: &[u8], times: RowTimes) {
        self.bytes = self.bytes.saturating_add(value.len());
        if self.bytes <= self.most {
            self.rows[key] = Some((value.to_vec(), times));
        }
    }

    /// The bytes of all values that were found, kept or not.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether values were found that are not kept.
    pub fn is_exceeded(&self) -> bool {
        self.bytes > self.most
    }

    /// The rows, one for each key.
    pub fn into_rows(self, keys: &[Option<Vec<u8>>]) -> StoredRows {
        let mut rows = StoredRows::default();
        for (key, found) in keys.iter().zip(self.rows) {
            let key = key.as_deref().unwrap_or_default();
            match found {
                Some((value, times)) => rows.push(key, Some(&value), times),
                None => rows.push(key, None, RowTimes::default()),
            }
        }
        rows
    }
}
