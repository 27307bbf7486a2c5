//! A position in the key order of a frozen layer.

use super::layer::Layer;
use super::record::StagedRecord;
use crate::table::Bounds;
use crate::transaction::merge::{SeekableRows, SortedRows};
use std::ops::Range;
use std::sync::Arc;

/// How many records are prefetched at once.
const PREFETCHED: usize = 8;

/// A frozen layer and a position in its key order.
pub(crate) struct LayerCursor {
    layer: Arc<Layer>,
    /// Position of the current row; equal to `end` if there is none.
    at: usize,
    low: usize,
    end: usize,
    /// Positions whose records were read into the processor's caches.
    prefetched: Range<usize>,
}

impl LayerCursor {
    /// A cursor over a whole layer, at its first row.
    pub(in crate::transaction) fn new(layer: Arc<Layer>) -> Self {
        Self::within(layer, &Bounds::default(), false)
    }

    /// A cursor over the rows within bounds, at the first or (`reverse`) the last of them.
    pub(in crate::transaction) fn within(
        layer: Arc<Layer>,
        bounds: &Bounds,
        reverse: bool,
    ) -> Self {
        let low = bounds
            .lower
            .as_ref()
            .map_or(0, |key| layer.run_position(key));
        let end = bounds
            .upper
            .as_ref()
            .map_or(layer.run().len(), |key| layer.run_position(key))
            .max(low);
        let mut cursor = Self {
            layer,
            at: low,
            low,
            end,
            prefetched: 0..0,
        };
        cursor.seek_to_end(reverse);
        cursor
    }

    fn record_number(&self) -> Option<u32> {
        (self.at < self.end).then(|| self.layer.run()[self.at].record())
    }

    /// The current row.
    pub(in crate::transaction) fn record(&self) -> Option<StagedRecord<'_>> {
        self.record_number()
            .map(|n| StagedRecord::new(&self.layer, n))
    }

    /// Key and value of the current row; no value for a delete.
    pub(in crate::transaction) fn row(&self) -> Option<(&[u8], Option<&[u8]>)> {
        self.record_number().map(|n| self.layer.row(n))
    }

    /// Prefetches the next records. They are scattered in memory, and several at a time cost little
    /// more than one.
    pub(in crate::transaction) fn prefetch(&mut self, reverse: bool) {
        if self.prefetched.contains(&self.at) || self.at == self.end {
            return;
        }
        self.prefetched = if reverse {
            self.at.saturating_sub(PREFETCHED - 1).max(self.low)..self.at + 1
        } else {
            self.at..self.end.min(self.at + PREFETCHED)
        };
        self.layer.touch(self.prefetched.clone());
    }

    /// Moves forward to the first row at or after `key`, unless the cursor is past it.
    pub(in crate::transaction) fn skip_to(&mut self, key: &[u8]) {
        self.at = self
            .layer
            .run_position(key)
            .clamp(self.low, self.end)
            .max(self.at);
    }
}

impl SortedRows for LayerCursor {
    #[inline]
    fn key(&self) -> Option<&[u8]> {
        self.record_number().map(|n| self.layer.key(n))
    }

    #[inline]
    fn advance(&mut self, reverse: bool) {
        if !reverse {
            self.at += 1;
        } else if self.at > self.low {
            self.at -= 1;
        } else {
            self.at = self.end;
        }
    }
}

impl SeekableRows for LayerCursor {
    fn item(&self) -> Option<(&[u8], &[u8])> {
        let (key, value) = self.row()?;
        Some((key, value?))
    }

    fn is_delete(&self) -> bool {
        self.record_number()
            .is_some_and(|n| self.layer.value(n).is_none())
    }

    fn seek(&mut self, key: &[u8], reverse: bool) {
        self.prefetched = 0..0;
        self.at = self.layer.run_position(key).clamp(self.low, self.end);
        if reverse && self.key() != Some(key) {
            self.advance(true);
        }
    }

    fn seek_to_end(&mut self, reverse: bool) {
        self.at = if reverse && self.end > self.low {
            self.end - 1
        } else {
            self.low
        };
    }
}
