//! A position in the key order of a frozen layer.

use super::layer::Layer;
use super::record::StagedRecord;
use crate::table::Bounds;
use crate::transaction::merge::{SeekableRows, SortedRows};
use std::sync::Arc;

/// How many rows ahead the place of a record is prefetched.
const PLACES_AHEAD: usize = 32;

/// How many rows ahead the bytes of a record are prefetched. This needs the record's place, which
/// has arrived by then.
const BYTES_AHEAD: usize = 16;

/// How many rows are prefetched at once at most: a short scan does not use those far ahead.
const AT_ONCE: usize = 4;

/// A frozen layer and a position in its key order.
pub(crate) struct LayerCursor {
    layer: Arc<Layer>,
    /// Position of the current row; equal to `end` if there is none.
    at: usize,
    low: usize,
    end: usize,
    /// Up to which row, counted from the scan's first one, the places were prefetched.
    places_until: usize,
    /// The same for the bytes.
    bytes_until: usize,
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
            places_until: 0,
            bytes_until: 0,
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

    /// Prefetches the next records. Both the place and the bytes of a record are at a random place
    /// in memory, and a scan would wait for each.
    #[inline]
    pub(in crate::transaction) fn prefetch(&mut self, reverse: bool) {
        if self.at == self.end {
            return;
        }
        let rows = &self.layer.run()[self.low..self.end];
        let record = |row: usize| rows[if reverse { rows.len() - 1 - row } else { row }].record();
        let at = if reverse {
            self.end - 1 - self.at
        } else {
            self.at - self.low
        };
        let until = |done: usize, ahead: usize| {
            let end = rows.len().min(at + ahead);
            end.min(at.max(done) + AT_ONCE)
        };
        let places_until = until(self.places_until, PLACES_AHEAD);
        let bytes_until = until(self.bytes_until, BYTES_AHEAD);
        for row in at.max(self.places_until)..places_until {
            self.layer.prefetch_place(record(row));
        }
        for row in at.max(self.bytes_until)..bytes_until {
            self.layer.prefetch_bytes(record(row));
        }
        self.places_until = places_until;
        self.bytes_until = bytes_until;
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
        (self.places_until, self.bytes_until) = (0, 0);
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Keys = Vec<Vec<u8>>;

    /// The keys from the current row on.
    fn keys(cursor: &mut LayerCursor, reverse: bool, is_prefetching: bool) -> Keys {
        let mut keys = Vec::new();
        loop {
            if is_prefetching {
                cursor.prefetch(reverse);
            }
            let Some(key) = cursor.key().map(<[u8]>::to_vec) else {
                return keys;
            };
            keys.push(key);
            cursor.advance(reverse);
        }
    }

    proptest! {
        #[test]
        fn prefetch_changes_no_row(
            rows in prop::collection::vec((prop::collection::vec(0u8..9, 0..4), 0usize..200),
                0..90),
            lower in prop::option::of(prop::collection::vec(0u8..9, 0..4)),
            upper in prop::option::of(prop::collection::vec(0u8..9, 0..4)),
            seek in prop::collection::vec(0u8..9, 0..4),
            reverse in any::<bool>(),
        ) {
            let mut layer = Layer::new(7, 0);
            for (key, value) in rows {
                layer.push(&[&key], Some(&[&vec![1; value]]), false);
            }
            layer.freeze();
            let layer = Arc::new(layer);
            let bounds = Bounds { lower, upper, ..Bounds::default() };
            let cursor = || LayerCursor::within(Arc::clone(&layer), &bounds, reverse);
            let (mut plain, mut prefetching) = (cursor(), cursor());
            for _ in 0..2 {
                prop_assert_eq!(
                    keys(&mut prefetching, reverse, true),
                    keys(&mut plain, reverse, false)
                );
                plain.seek(&seek, reverse);
                prefetching.seek(&seek, reverse);
            }
        }
    }
}
