//! Rows of a result that are made of bytes: kept ones, of two sides, of which each may be absent.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use holdfast_core::Result;
use xxhash_rust::xxh3::Xxh3Default;

use super::Worker;
use super::batch::Filling;
use super::output::{Output, Source, times_of};
use super::rows::Layout;
use crate::protocol::Digest;

/// One side of a row: its time and its payload.
pub type Side<'a> = Option<(Option<i64>, &'a [u8])>;

/// A time and a payload, each of which may be absent.
pub type Half<'a> = (Option<i64>, Option<&'a [u8]>);

/// Puts rows into batches and hands them on, in order.
pub struct Emitter<'a> {
    output: &'a Output,
    layout: &'a Layout,
    worker: &'a mut dyn Worker,
    pairs: Pairs,
    filling: Filling,
    digest: Xxh3Default,
    rows: u64,
}

impl<'a> Emitter<'a> {
    /// Rows of these columns, from keys and payloads of an input of this layout, to a worker.
    pub fn new(output: &'a Output, layout: &'a Layout, worker: &'a mut dyn Worker) -> Self {
        Self {
            output,
            layout,
            worker,
            pairs: Pairs::default(),
            filling: Filling::default(),
            digest: Xxh3Default::new(),
            rows: 0,
        }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// `Serialization` for bytes that are no such rows; those of the worker.
    pub fn push(&mut self, key: &[u8], left: Side<'_>, right: Side<'_>) -> Result<()> {
        self.push_halves(key, half(left), half(right))
    }

    /// Adds a row of which each side's time and payload may be absent by themselves.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn push_halves(&mut self, key: &[u8], left: Half<'_>, right: Half<'_>) -> Result<()> {
        let bytes = [Some(key), left.1, right.1]
            .into_iter()
            .flatten()
            .map(<[u8]>::len)
            .sum();
        if !self.filling.takes(bytes) {
            self.flush()?;
            self.filling.takes(bytes);
        }
        self.pairs.push(key, left, right);
        Ok(())
    }

    /// Hands on what is left; returns the digest of all rows, and how many there were.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn finish(mut self) -> Result<(Digest, u64)> {
        self.flush()?;
        Ok((Digest::from_hasher(&self.digest), self.rows))
    }

    fn flush(&mut self) -> Result<()> {
        if self.pairs.rows.is_empty() {
            return Ok(());
        }
        self.pairs.digest(&mut self.digest);
        self.rows += self.pairs.rows.len() as u64;
        let batch = self.pairs.batch(self.output, self.layout)?;
        self.pairs.rows.clear();
        self.pairs.bytes.clear();
        self.filling = Filling::default();
        self.worker.emit(batch)
    }
}

fn half(side: Side<'_>) -> Half<'_> {
    side.map_or((None, None), |(time, payload)| (time, Some(payload)))
}

/// A row of one side: its time, and where its payload lies.
type Kept = (Option<i64>, Option<Range<usize>>);

#[derive(Default)]
struct Pairs {
    rows: Vec<Pair>,
    bytes: Vec<u8>,
}

struct Pair {
    key: Range<usize>,
    left: Kept,
    right: Kept,
}

impl Pairs {
    fn push(&mut self, key: &[u8], left: Half<'_>, right: Half<'_>) {
        let key = self.keep(key);
        let left = (left.0, left.1.map(|payload| self.keep(payload)));
        let right = (right.0, right.1.map(|payload| self.keep(payload)));
        self.rows.push(Pair { key, left, right });
    }

    fn batch(&self, output: &Output, layout: &Layout) -> Result<RecordBatch> {
        let payload = |kept: &Kept| kept.1.clone().map(|range| &self.bytes[range]);
        let keys = layout
            .key_codec
            .decode(self.rows.iter().map(|row| &self.bytes[row.key.clone()]))?;
        let left = layout
            .left_codec
            .decode(self.rows.iter().map(|row| payload(&row.left)))?;
        let right = layout
            .right_codec
            .decode(self.rows.iter().map(|row| payload(&row.right)))?;
        let column = |source: &Source| match *source {
            Source::Key { index } => Arc::clone(&keys[index]),
            Source::Left { index } => Arc::clone(&left[index]),
            Source::Right { index } => Arc::clone(&right[index]),
            Source::Time => times_of(
                &layout.time_type,
                self.rows.iter().map(|row| row.left.0).collect(),
            ),
            Source::RightTime => times_of(
                &layout.time_type,
                self.rows.iter().map(|row| row.right.0).collect(),
            ),
        };
        output.batch(output.sources.iter().map(column).collect::<Vec<ArrayRef>>())
    }

    fn digest(&self, digest: &mut Xxh3Default) {
        for Pair { key, left, right } in &self.rows {
            digest.update(&(key.len() as u64).to_be_bytes());
            digest.update(&self.bytes[key.clone()]);
            for (time, payload) in [left, right] {
                // Fixed width first: with the payload's length in it, no two rows give the same
                // bytes.
                let value = payload.clone().map_or(&[][..], |range| &self.bytes[range]);
                let mut fixed = [0; 18];
                fixed[0] = u8::from(payload.is_some());
                fixed[1] = u8::from(time.is_some());
                fixed[2..10].copy_from_slice(&time.unwrap_or(0).to_be_bytes());
                fixed[10..].copy_from_slice(&(value.len() as u64).to_be_bytes());
                digest.update(&fixed);
                digest.update(value);
            }
        }
    }

    fn keep(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }
}
