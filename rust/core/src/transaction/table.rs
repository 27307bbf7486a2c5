//! What a transaction holds of one table: frozen layers that readers share, and the one that grows.

use super::cleared::{Cleared, Interval};
use super::layer::Layer;
use crate::table::Bounds;
use std::convert::Infallible;
use std::sync::Arc;

pub(super) struct TableBuffer {
    frozen: Vec<Arc<Layer>>,
    active: Layer,
    cleared: Cleared,
    family: u32,
    suffix: usize,
}

/// A staged record, looked up.
#[derive(Clone, Copy)]
pub(crate) struct Staged<'a> {
    /// The key as it will stand in the database.
    pub(crate) key: &'a [u8],
    /// `None` for a delete.
    pub(crate) value: Option<&'a [u8]>,
    /// It was the newest version of its key when it was staged (versioned tables only).
    pub(crate) newest: bool,
}

fn staged(layer: &Layer, n: u32) -> Staged<'_> {
    Staged {
        key: layer.key(n),
        value: layer.value(n),
        newest: layer.newest(n),
    }
}

impl TableBuffer {
    pub(super) fn new(family: u32, suffix: usize) -> Self {
        Self {
            frozen: Vec::new(),
            active: Layer::new(family, suffix),
            cleared: Cleared::default(),
            family,
            suffix,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.frozen.is_empty() && self.active.is_empty() && self.cleared.is_empty()
    }

    #[inline]
    pub(super) fn push(&mut self, key: &[&[u8]], value: Option<&[&[u8]]>, newest: bool) {
        self.active.push(key, value, newest);
    }

    pub(super) fn bytes(&self) -> usize {
        if self.is_empty() {
            return 0;
        }
        self.active.bytes()
            + self.frozen.iter().map(|layer| layer.bytes()).sum::<usize>()
            + self.cleared.bytes()
    }

    /// Staged puts less staged deletes: about how many rows a commit would add.
    pub(super) fn added_rows(&self) -> i64 {
        self.layers()
            .map(|layer| layer.len() as i64 - 2 * layer.deletes() as i64)
            .sum()
    }

    /// The intervals whose stored rows are deleted.
    pub(super) fn cleared(&self) -> &Cleared {
        &self.cleared
    }

    /// Whether the stored row of a key is deleted; a staged record of the key comes first.
    #[inline]
    pub(super) fn hides_stored(&self, key: &[u8]) -> bool {
        self.cleared.hides(key)
    }

    /// Deletes the stored rows of an interval.
    pub(super) fn clear(&mut self, interval: Interval) {
        self.cleared.add(interval);
    }

    /// Stages a delete over every staged row within bounds.
    pub(super) fn delete_staged(&mut self, bounds: &Bounds) {
        let layers = self.freeze().to_vec();
        let inside = |layer: &Arc<Layer>| {
            let low = bounds
                .lower
                .as_ref()
                .map_or(0, |key| layer.run_position(key));
            let end = bounds
                .upper
                .as_ref()
                .map_or(layer.run().len(), |key| layer.run_position(key));
            low..end.max(low)
        };
        let mut keys: Vec<&[u8]> = layers
            .iter()
            .flat_map(|layer| {
                layer.run()[inside(layer)]
                    .iter()
                    .map(|entry| layer.key(entry.record()))
            })
            .collect();
        keys.sort_unstable();
        keys.dedup();
        let is_put = |key: &&[u8]| self.find(key).is_some_and(|staged| staged.value.is_some());
        keys.retain(is_put);
        for key in keys {
            self.active.push(&[key], None, false);
        }
    }

    pub(super) fn catch_up(&mut self) {
        self.active.catch_up();
    }

    fn layers(&self) -> impl DoubleEndedIterator<Item = &Layer> {
        self.frozen
            .iter()
            .map(Arc::as_ref)
            .chain(std::iter::once(&self.active))
    }

    /// What is staged for a key; `catch_up` first.
    #[inline]
    pub(super) fn find(&self, key: &[u8]) -> Option<Staged<'_>> {
        self.layers()
            .rev()
            .find_map(|layer| layer.find(key).map(|n| staged(layer, n)))
    }

    /// The newest staged version of a key; `catch_up` first.
    pub(super) fn newest(&self, part: &[u8]) -> Option<Staged<'_>> {
        let mut best: Option<Staged<'_>> = None;
        for layer in self.layers() {
            if let Some(n) = layer.find(part)
                && best.is_none_or(|best| layer.key(n) <= best.key)
            {
                best = Some(staged(layer, n));
            }
        }
        best
    }

    pub(super) fn order(&mut self) {
        self.active.order();
    }

    /// The first staged record at or behind a key; `order` first.
    pub(super) fn at_or_after(&self, key: &[u8]) -> Option<Staged<'_>> {
        let mut best: Option<Staged<'_>> = None;
        for layer in self.layers() {
            if let Some(n) = layer.at_or_after(key)
                && best.is_none_or(|best| layer.key(n) <= best.key)
            {
                best = Some(staged(layer, n));
            }
        }
        best
    }

    /// The last staged record before a key; `order` first.
    pub(super) fn before(&self, key: &[u8]) -> Option<Staged<'_>> {
        let mut best: Option<Staged<'_>> = None;
        for layer in self.layers() {
            if let Some(n) = layer.before(key)
                && best.is_none_or(|best| layer.key(n) >= best.key)
            {
                best = Some(staged(layer, n));
            }
        }
        best
    }

    /// Closes the growing layer for good and returns all of them, oldest first: a repeatable view
    /// of what is staged now.
    pub(super) fn freeze(&mut self) -> &[Arc<Layer>] {
        if !self.active.is_empty() {
            let mut layer =
                std::mem::replace(&mut self.active, Layer::new(self.family, self.suffix));
            // Layers of like size become one, so that a reader meets few of them however often it
            // asks.
            while let Some(last) = self.frozen.last()
                && last.len() <= layer.len() * 2
                && let Some(last) = self.frozen.pop()
            {
                layer = Self::merged(&last, &layer, self.family, self.suffix);
            }
            layer.freeze();
            self.frozen.push(Arc::new(layer));
        }
        &self.frozen
    }

    /// The frozen layers, oldest first; the buffer is given up.
    pub(super) fn take(&mut self) -> Vec<Arc<Layer>> {
        self.freeze();
        std::mem::take(&mut self.frozen)
    }

    fn merged(older: &Layer, newer: &Layer, family: u32, suffix: usize) -> Layer {
        let mut layer = Layer::new(family, suffix);
        for source in [older, newer] {
            for n in 0..source.len() as u32 {
                let value = source.value(n).map(|value| [value]);
                layer.push(
                    &[source.key(n)],
                    value.as_ref().map(|v| v.as_slice()),
                    source.newest(n),
                );
            }
        }
        layer
    }

    /// All staged records in key order, of each key the last (so, of a versioned table, each key's
    /// newest version first).
    pub(super) fn newest_first(&mut self) -> impl Iterator<Item = Staged<'_>> {
        let layers = self.freeze();
        // Freezing keeps the layers' sizes apart by a factor of two, so there are few; the usual
        // case is one.
        let mut rows: Vec<Staged<'_>> =
            Vec::with_capacity(layers.iter().map(|layer| layer.run().len()).sum());
        for layer in layers.iter().rev() {
            rows.extend(
                layer
                    .run()
                    .iter()
                    .map(|entry| staged(layer, entry.record())),
            );
        }
        if layers.len() > 1 {
            // Stable: of equal keys the newest layer's stays first.
            rows.sort_by(|a, b| a.key.cmp(b.key));
            rows.dedup_by(|b, a| a.key == b.key);
        }
        rows.into_iter()
    }

    /// The same frozen layers for a reader, which stages nothing.
    pub(super) fn reader(&mut self) -> Self {
        let frozen = self.freeze().to_vec();
        Self {
            frozen,
            active: Layer::new(self.family, self.suffix),
            cleared: self.cleared.clone(),
            family: self.family,
            suffix: self.suffix,
        }
    }

    /// The intervals whose stored rows are deleted; they are given up. To be written before the
    /// records.
    pub(super) fn take_cleared(&mut self) -> Cleared {
        std::mem::take(&mut self.cleared)
    }

    /// Hands all staged records to `f` in key order, of each key the last, also as they go into a
    /// write batch.
    pub(super) fn in_order<E>(
        &self,
        mut f: impl FnMut(Staged<'_>, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let filled = self.layers().filter(|layer| !layer.is_empty());
        let layers: Vec<(&Layer, Vec<u32>)> =
            filled.map(|layer| (layer, layer.commit_order())).collect();
        if let [(layer, order)] = layers.as_slice() {
            return order
                .iter()
                .try_for_each(|n| f(staged(layer, *n), layer.encoded(*n)));
        }
        let mut at = vec![0; layers.len()];
        loop {
            // The smallest key; of equals the newest layer's, which comes last.
            let mut best: Option<(usize, &[u8])> = None;
            for (n, (layer, order)) in layers.iter().enumerate() {
                if let Some(record) = order.get(at[n])
                    && best.is_none_or(|(_, smallest)| layer.key(*record) <= smallest)
                {
                    best = Some((n, layer.key(*record)));
                }
            }
            let Some((winner, smallest)) = best else {
                return Ok(());
            };
            let (layer, order) = &layers[winner];
            let record = order[at[winner]];
            f(staged(layer, record), layer.encoded(record))?;
            for (n, (layer, order)) in layers.iter().enumerate() {
                if order
                    .get(at[n])
                    .is_some_and(|record| layer.key(*record) == smallest)
                {
                    at[n] += 1;
                }
            }
        }
    }

    /// Forgets everything.
    pub(super) fn give_up(&mut self) {
        *self = Self::new(self.family, self.suffix);
    }

    /// The same, and the records are given up.
    pub(super) fn drain_in_order(&mut self, mut f: impl FnMut(Staged<'_>, &[u8])) {
        let cleared = std::mem::take(&mut self.cleared);
        let drained = std::mem::replace(
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
