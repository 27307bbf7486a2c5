//! The staged records of one table: frozen layers that readers share, and the active layer.

#[cfg(test)]
mod tests;

use super::cleared::{Cleared, Interval};
use super::layer::Layer;
use super::layer_cursor::LayerCursor;
use super::record::StagedRecord;
use crate::table::Bounds;
use crate::transaction::merge;
use std::convert::Infallible;
use std::sync::Arc;

pub(in crate::transaction) struct TableBuffer {
    frozen: Vec<Arc<Layer>>,
    active: Layer,
    cleared: Cleared,
    family: u32,
    suffix: usize,
}

impl TableBuffer {
    pub(in crate::transaction) fn new(family: u32, suffix: usize) -> Self {
        Self {
            frozen: Vec::new(),
            active: Layer::new(family, suffix),
            cleared: Cleared::default(),
            family,
            suffix,
        }
    }

    pub(in crate::transaction) fn is_empty(&self) -> bool {
        self.frozen.is_empty() && self.active.is_empty() && self.cleared.is_empty()
    }

    #[inline]
    pub(in crate::transaction) fn push(
        &mut self,
        key: &[&[u8]],
        value: Option<&[&[u8]]>,
        newest: bool,
    ) {
        self.active.push(key, value, newest);
    }

    pub(in crate::transaction) fn bytes(&self) -> usize {
        if self.is_empty() {
            return 0;
        }
        self.active.bytes()
            + self.frozen.iter().map(|layer| layer.bytes()).sum::<usize>()
            + self.cleared.bytes()
    }

    /// Staged puts less staged deletes: about how many rows a commit would add.
    pub(in crate::transaction) fn added_rows(&self) -> i64 {
        self.layers()
            .map(|layer| layer.len() as i64 - 2 * layer.deletes() as i64)
            .sum()
    }

    /// The intervals whose stored rows are deleted.
    pub(in crate::transaction) fn cleared(&self) -> &Cleared {
        &self.cleared
    }

    /// Whether the stored row of a key is deleted. Check for a staged record of the key first.
    #[inline]
    pub(in crate::transaction) fn hides_stored(&self, key: &[u8]) -> bool {
        self.cleared.hides(key)
    }

    /// Deletes the stored rows of an interval.
    pub(in crate::transaction) fn clear(&mut self, interval: Interval) {
        self.cleared.add(interval);
    }

    /// Stages a delete over every staged row within bounds.
    pub(in crate::transaction) fn delete_staged(&mut self, bounds: &Bounds) {
        let frozen = self.freeze().iter().cloned();
        let mut layers: Vec<LayerCursor> = frozen
            .map(|layer| LayerCursor::within(layer, bounds, false))
            .collect();
        let Ok(()) = merge::for_each_newest(&mut layers, |row| {
            if let Some((key, Some(_))) = row.row() {
                self.active.push(&[key], None, false);
            }
            Ok::<(), Infallible>(())
        });
    }

    pub(in crate::transaction) fn catch_up(&mut self) {
        self.active.catch_up();
    }

    fn layers(&self) -> impl DoubleEndedIterator<Item = &Layer> {
        self.frozen
            .iter()
            .map(Arc::as_ref)
            .chain(std::iter::once(&self.active))
    }

    /// The last staged record of a key; call `catch_up` first.
    #[inline]
    pub(in crate::transaction) fn find(&self, key: &[u8]) -> Option<StagedRecord<'_>> {
        self.layers()
            .rev()
            .find_map(|layer| layer.find(key).map(|n| StagedRecord::new(layer, n)))
    }

    /// The newest staged version of a key; call `catch_up` first.
    pub(in crate::transaction) fn newest(&self, part: &[u8]) -> Option<StagedRecord<'_>> {
        let mut best: Option<StagedRecord<'_>> = None;
        for layer in self.layers() {
            if let Some(n) = layer.find(part)
                && best.is_none_or(|best| layer.key(n) <= best.key)
            {
                best = Some(StagedRecord::new(layer, n));
            }
        }
        best
    }

    pub(in crate::transaction) fn order(&mut self) {
        self.active.order();
    }

    /// The first staged record at or after a key; call `order` first.
    pub(in crate::transaction) fn at_or_after(&self, key: &[u8]) -> Option<StagedRecord<'_>> {
        let mut best: Option<StagedRecord<'_>> = None;
        for layer in self.layers() {
            if let Some(n) = layer.at_or_after(key)
                && best.is_none_or(|best| layer.key(n) <= best.key)
            {
                best = Some(StagedRecord::new(layer, n));
            }
        }
        best
    }

    /// The last staged record before a key; call `order` first.
    pub(in crate::transaction) fn before(&self, key: &[u8]) -> Option<StagedRecord<'_>> {
        let mut best: Option<StagedRecord<'_>> = None;
        for layer in self.layers() {
            if let Some(n) = layer.before(key)
                && best.is_none_or(|best| layer.key(n) >= best.key)
            {
                best = Some(StagedRecord::new(layer, n));
            }
        }
        best
    }

    /// Freezes the active layer and returns all layers, oldest first: a repeatable view of the
    /// records staged so far.
    pub(in crate::transaction) fn freeze(&mut self) -> &[Arc<Layer>] {
        if !self.active.is_empty() {
            let mut layer = self.take_active();
            layer.freeze();
            // Layers of similar size are joined, so a reader sees few layers even if views are
            // taken often.
            while let Some(last) = self.frozen.last()
                && last.len() <= layer.len() * 2
                && let Some(last) = self.frozen.pop()
            {
                layer = Layer::joined(last, layer);
            }
            self.frozen.push(Arc::new(layer));
        }
        &self.frozen
    }

    fn take_active(&mut self) -> Layer {
        std::mem::replace(&mut self.active, Layer::new(self.family, self.suffix))
    }

    /// Joins all layers into one: one sort costs less than a merge of many sorted layers.
    fn join(&mut self) -> &Layer {
        if self.frozen.len() > usize::from(self.active.is_empty()) {
            let mut layer = self.take_active();
            while let Some(last) = self.frozen.pop() {
                if last.is_ordered() {
                    // Its order is then part of the joined one.
                    layer.complete_order();
                }
                layer = Layer::joined(last, layer);
            }
            self.frozen.push(Arc::new(layer));
        }
        self.frozen.first().map_or(&self.active, Arc::as_ref)
    }

    /// Takes the staged records out of the buffer, as one frozen layer; `None` if there are none.
    pub(in crate::transaction) fn take(&mut self) -> Option<Arc<Layer>> {
        self.freeze();
        self.join();
        self.frozen.pop()
    }

    /// Calls `f` with each key's last staged record, in key order. In a versioned table, each key's
    /// newest version comes first. The order is remembered, so the next call is cheaper.
    pub(in crate::transaction) fn for_each_newest<E>(
        &mut self,
        mut f: impl FnMut(StagedRecord<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let frozen = self.freeze().iter().cloned();
        let mut layers: Vec<LayerCursor> = frozen.map(LayerCursor::new).collect();
        merge::for_each_newest(&mut layers, |row| row.record().map_or(Ok(()), &mut f))
    }

    /// Returns a buffer with the same frozen layers for a reader, which stages nothing.
    pub(in crate::transaction) fn reader(&mut self) -> Self {
        let frozen = self.freeze().to_vec();
        Self {
            frozen,
            active: Layer::new(self.family, self.suffix),
            cleared: self.cleared.clone(),
            family: self.family,
            suffix: self.suffix,
        }
    }

    /// Takes the intervals whose stored rows are deleted. They must be written before the records.
    pub(in crate::transaction) fn take_cleared(&mut self) -> Cleared {
        std::mem::take(&mut self.cleared)
    }

    /// Calls `f` with each key's last staged record, in key order, and with its encoding in a write
    /// batch.
    pub(in crate::transaction) fn in_order<E>(
        &mut self,
        mut f: impl FnMut(StagedRecord<'_>, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let layer = self.join();
        let mut order = layer.commit_order().into_iter();
        order.try_for_each(|n| f(StagedRecord::new(layer, n), layer.encoded(n)))
    }

    /// Drops everything that is staged.
    pub(in crate::transaction) fn clear_all(&mut self) {
        *self = Self::new(self.family, self.suffix);
    }

    /// As `in_order`; the records are then dropped.
    pub(in crate::transaction) fn drain_in_order(
        &mut self,
        mut f: impl FnMut(StagedRecord<'_>, &[u8]),
    ) {
        let cleared = std::mem::take(&mut self.cleared);
        let mut drained = std::mem::replace(
            self,
            Self {
                cleared,
                ..Self::new(self.family, self.suffix)
            },
        );
        let Ok(()) = drained.in_order(|staged, encoded| {
            f(staged, encoded);
            Ok::<(), Infallible>(())
        });
    }
}
