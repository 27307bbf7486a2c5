//! The layout of Kafka Streams' versioned store (4.3.1, `RocksDBVersionedStore`), rebuilt over the
//! same RocksDB and the same file options as the other benches, to compare the layouts alone.
//!
//! ```text
//! latest   ff × 8 | key                      →  begin | value
//! history  segment of the END, 8 bytes | key →  next | min | {begin | size} newest first
//!          | values oldest first
//! ```
//!
//! There is one packed row per key and segment. A put that is not late reads `latest` and the row
//! that it adds to. All numbers are big-endian. There are no tombstones, as no bench writes any;
//! without them the versions of a key are contiguous.

use super::raw;
use rust_rocksdb::{DB, ReadOptions, WriteBatch, WriteOptions};
use std::path::Path;

const LATEST: i64 = -1;

/// A version in a row.
type Version<'a> = (i64, &'a [u8]);

pub struct Kafka {
    pub rocks: DB,
    retention: i64,
    interval: i64,
    stream_time: i64,
    write: WriteOptions,
    row_key: Vec<u8>,
    row: Vec<u8>,
}

fn number(bytes: &[u8]) -> i64 {
    i64::from_be_bytes(bytes[..8].try_into().unwrap())
}

fn set_key(out: &mut Vec<u8>, segment: i64, key: &[u8]) {
    out.clear();
    out.extend_from_slice(&segment.to_be_bytes());
    out.extend_from_slice(key);
}

/// A history row's end, and its versions, newest first.
fn parse(row: &[u8]) -> (i64, Vec<Version<'_>>) {
    let (next, min) = (number(row), number(&row[8..]));
    let mut versions = Vec::new();
    let (mut at, mut end) = (16, row.len());
    loop {
        let begin = number(&row[at..]);
        let size = i32::from_be_bytes(row[at + 8..at + 12].try_into().unwrap()) as usize;
        versions.push((begin, &row[end - size..end]));
        end -= size;
        at += 12;
        if begin == min {
            return (next, versions);
        }
    }
}

fn encode(out: &mut Vec<u8>, next: i64, versions: &[Version<'_>]) {
    out.clear();
    out.extend_from_slice(&next.to_be_bytes());
    out.extend_from_slice(&versions.last().unwrap().0.to_be_bytes());
    for (begin, value) in versions {
        out.extend_from_slice(&begin.to_be_bytes());
        out.extend_from_slice(&(value.len() as i32).to_be_bytes());
    }
    for (_, value) in versions.iter().rev() {
        out.extend_from_slice(value);
    }
}

impl Kafka {
    pub fn open(path: &Path, retention: i64, interval: i64) -> Self {
        let rocks = raw::open(path, false);
        Self {
            rocks,
            retention,
            interval,
            stream_time: -1,
            write: raw::no_wal(),
            row_key: Vec::new(),
            row: Vec::new(),
        }
    }

    fn oldest_segment(&self) -> i64 {
        (self.stream_time - self.retention).max(0) / self.interval
    }

    fn put_row(&mut self, segment: i64, key: &[u8], next: i64, versions: &[Version<'_>]) {
        encode(&mut self.row, next, versions);
        set_key(&mut self.row_key, segment, key);
        self.rocks
            .put_opt(&self.row_key, &self.row, &self.write)
            .unwrap();
    }

    fn put_latest(&mut self, key: &[u8], value: &[u8], time: i64) {
        set_key(&mut self.row_key, LATEST, key);
        self.row.clear();
        self.row.extend_from_slice(&time.to_be_bytes());
        self.row.extend_from_slice(value);
        self.rocks
            .put_opt(&self.row_key, &self.row, &self.write)
            .unwrap();
    }

    fn read(
        &self,
        row_key: &mut Vec<u8>,
        segment: i64,
        key: &[u8],
    ) -> Option<rust_rocksdb::DBPinnableSlice<'_>> {
        set_key(row_key, segment, key);
        self.rocks.get_pinned(row_key).unwrap()
    }

    /// Adds a version as the newest of a segment's row.
    fn append(&mut self, segment: i64, key: &[u8], next: i64, version: Version<'_>) {
        let mut row_key = std::mem::take(&mut self.row_key);
        let stored = self
            .read(&mut row_key, segment, key)
            .map(|row| row.to_vec());
        self.row_key = row_key;
        let mut versions = stored
            .as_deref()
            .map(|row| parse(row).1)
            .unwrap_or_default();
        versions.insert(0, version);
        self.put_row(segment, key, next, &versions);
    }

    /// Puts a version. Expired segments are dropped first, each with one range delete.
    pub fn put(&mut self, key: &[u8], value: &[u8], time: i64) {
        let oldest = self.oldest_segment();
        self.stream_time = self.stream_time.max(time);
        for segment in oldest..self.oldest_segment() {
            let mut batch = WriteBatch::default();
            batch.delete_range(segment.to_be_bytes(), (segment + 1).to_be_bytes());
            self.rocks.write_opt(&batch, &self.write).unwrap();
        }
        let mut row_key = Vec::new();
        let Some(latest) = self.read(&mut row_key, LATEST, key).map(|row| row.to_vec()) else {
            return self.put_latest(key, value, time);
        };
        let begin = number(&latest);
        if time > begin {
            self.append(time / self.interval, key, time, (begin, &latest[8..]));
        }
        if time >= begin {
            return self.put_latest(key, value, time);
        }
        let mut end = begin;
        for segment in (time / self.interval..=self.stream_time / self.interval).rev() {
            let Some(stored) = self
                .read(&mut row_key, segment, key)
                .map(|row| row.to_vec())
            else {
                continue;
            };
            let (next, mut versions) = parse(&stored);
            if next <= time {
                break;
            }
            if let Some(n) = versions.iter().position(|(begin, _)| *begin <= time) {
                let before = versions[n];
                if before.0 == time || time / self.interval != segment {
                    // The preceding version ends at `time`. If that is in an older segment, the
                    // version moves there.
                    if before.0 != time {
                        self.append(time / self.interval, key, time, before);
                    }
                    versions[n] = (time, value);
                } else {
                    versions.insert(n, (time, value));
                }
                return self.put_row(segment, key, next, &versions);
            }
            end = versions.last().unwrap().0;
        }
        let segment = end / self.interval;
        let stored = self
            .read(&mut row_key, segment, key)
            .map(|row| row.to_vec());
        match &stored {
            Some(stored) if parse(stored).0 > time => {
                let (next, mut versions) = parse(stored);
                versions.push((time, value));
                self.put_row(segment, key, next, &versions);
            }
            _ => self.append(segment, key, end, (time, value)),
        }
    }

    /// Reads the version that is valid at a time: in `latest`, or in the segments from the newest
    /// back to that of the time.
    pub fn get_as_of(
        &self,
        row_key: &mut Vec<u8>,
        key: &[u8],
        at: i64,
        f: impl FnOnce(&[u8]),
    ) -> bool {
        if let Some(latest) = self.read(row_key, LATEST, key)
            && number(&latest) <= at
        {
            f(&latest[8..]);
            return true;
        }
        for segment in (at / self.interval..=self.stream_time / self.interval).rev() {
            let Some(row) = self.read(row_key, segment, key) else {
                continue;
            };
            if number(&row) <= at {
                return false;
            }
            if number(&row[8..]) > at {
                continue;
            }
            // The pairs are newest first, the values oldest first: sizes add up from the end.
            let (mut pair, mut end) = (16, row.len());
            loop {
                let size =
                    i32::from_be_bytes(row[pair + 8..pair + 12].try_into().unwrap()) as usize;
                if number(&row[pair..]) <= at {
                    f(&row[end - size..end]);
                    return true;
                }
                end -= size;
                pair += 12;
            }
        }
        false
    }

    /// Reads all versions of a key, newest first: `latest`, then one look-up per segment.
    pub fn versions(&self, row_key: &mut Vec<u8>, key: &[u8], mut f: impl FnMut(&[u8])) {
        if let Some(latest) = self.read(row_key, LATEST, key) {
            f(&latest[8..]);
        }
        for segment in (self.oldest_segment()..=self.stream_time / self.interval).rev() {
            if let Some(row) = self.read(row_key, segment, key) {
                parse(&row).1.into_iter().for_each(|(_, value)| f(value));
            }
        }
    }

    /// Scans the newest versions (upstream has no such call; its layout would allow it).
    pub fn scan(&self, mut f: impl FnMut(&[u8])) {
        let mut options = ReadOptions::default();
        options.set_iterate_lower_bound(LATEST.to_be_bytes());
        let mut rows = self.rocks.raw_iterator_opt(options);
        rows.seek_to_first();
        while let Some(row) = rows.value() {
            f(&row[8..]);
            rows.next();
        }
    }
}
