//! A table in memory: the committed rows, as frozen layers of transactions, the newest last.
//!
//! A commit adds its layer unchanged. Layers of similar size are merged, like the sorted runs of a
//! log-structured merge tree. Layers never change, so a view is a copy of a few pointers and is
//! repeatable.

use crate::transaction::merge;
use crate::transaction::staged::layer::{self, Layer};
use crate::transaction::staged::layer_cursor::LayerCursor;
use crate::transaction::staged::record::StagedRecord;
use std::convert::Infallible;
use std::sync::Arc;

/// How many layers of similar size are merged at once. A higher number makes reads slower, a lower
/// one copies each row more often.
const LAYERS_OF_A_SIZE: usize = 4;

/// Whether the row of a key can be dropped.
type Expired<'a> = dyn FnMut(&[u8]) -> bool + 'a;

/// Committed rows of one table.
#[derive(Clone, Default)]
pub(crate) struct MemoryTable {
    layers: Vec<Arc<Layer>>,
    /// The puts less the deletes of each layer.
    added: Vec<i64>,
}

impl MemoryTable {
    /// The layers, oldest first.
    pub(in crate::transaction) fn layers(&self) -> &[Arc<Layer>] {
        &self.layers
    }

    /// Returns a key's value from the newest layer that has the key. `None` if that layer deletes
    /// the key, or if no layer has it.
    pub(in crate::transaction) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        let hash = layer::hash(key);
        self.layers
            .iter()
            .rev()
            .find_map(|layer| layer.find_hashed(hash, key).map(|n| layer.value(n)))
            .flatten()
    }

    /// Estimates how many rows there are. Overwritten rows count until a merge drops them, and each
    /// delete counts as a removed row.
    pub(crate) fn approximate_rows(&self) -> u64 {
        u64::try_from(self.added.iter().sum::<i64>()).unwrap_or(0)
    }

    /// Memory of all rows, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.layers.iter().map(|layer| layer.bytes()).sum()
    }

    /// Adds a commit's rows. A merge that includes all layers calls `expired` for each row in key
    /// order, and drops the rows for which it returns true.
    pub(in crate::transaction) fn push(
        &mut self,
        layer: Arc<Layer>,
        family: u32,
        suffix: usize,
        expired: &mut Expired<'_>,
    ) {
        if !layer.is_empty() {
            self.add(layer);
        }
        while let Some(from) = self.merge_from() {
            let merged = merged(
                &self.layers[from..],
                family,
                suffix,
                (from == 0).then_some(&mut *expired),
            );
            self.layers.truncate(from);
            self.added.truncate(from);
            if !merged.is_empty() {
                self.add(Arc::new(merged));
            }
        }
    }

    fn add(&mut self, layer: Arc<Layer>) {
        let added = |record| if layer.value(record).is_some() { 1 } else { -1 };
        self.added
            .push(layer.run().iter().map(|entry| added(entry.record())).sum());
        self.layers.push(layer);
    }

    /// The position of the first layer to merge; all newer layers are merged with it.
    fn merge_from(&self) -> Option<usize> {
        let size = |n: usize| self.layers[n].run().len().max(1).ilog2() / 2;
        let newest = self.layers.len().checked_sub(1)?;
        let mut largest = size(newest);
        let mut of_largest = 0;
        let mut from = None;
        for n in (0..=newest).rev() {
            if size(n) > largest {
                (largest, of_largest) = (size(n), 0);
            }
            of_largest += usize::from(size(n) == largest);
            // A layer that is larger than all newer ones does not start a merge. One that is
            // smaller than a newer one does.
            if of_largest >= LAYERS_OF_A_SIZE || n < newest && size(n) < largest {
                from = Some(n);
            }
        }
        from
    }
}

/// Merges layers into one that has each key once. The caller passes `expired` only if there are no
/// older layers: then deletes and expired rows are dropped.
fn merged(
    layers: &[Arc<Layer>],
    family: u32,
    suffix: usize,
    mut expired: Option<&mut Expired<'_>>,
) -> Layer {
    let mut merged = Layer::new(family, suffix);
    let mut cursors: Vec<LayerCursor> = layers.iter().cloned().map(LayerCursor::new).collect();
    let Ok(()) = merge::for_each_newest(&mut cursors, |row| {
        if let Some(StagedRecord { key, value, newest }) = row.record() {
            let dropped = expired
                .as_mut()
                .is_some_and(|expired| expired(key) || value.is_none());
            if !dropped {
                merged.push(&[key], value.as_ref().map(std::slice::from_ref), newest);
            }
        }
        Ok::<(), Infallible>(())
    });
    merged.pushed_in_order();
    merged.freeze();
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transaction::merge::{MergeCursor, MergePosition};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    type TestRows = Vec<(Vec<u8>, Vec<u8>)>;

    fn layer_of(rows: &[(Vec<u8>, Option<u8>)]) -> Arc<Layer> {
        let mut layer = Layer::new(0, 0);
        for (key, value) in rows {
            let value = value.map(|v| [v]);
            layer.push(
                &[key],
                value
                    .as_ref()
                    .map(|v| [v.as_slice()])
                    .as_ref()
                    .map(|v| v.as_slice()),
                false,
            );
        }
        layer.freeze();
        Arc::new(layer)
    }

    fn cursors(table: &MemoryTable) -> Vec<LayerCursor> {
        let layers = table.layers().iter().cloned();
        layers.map(LayerCursor::new).collect()
    }

    fn forward(table: &MemoryTable) -> TestRows {
        let (mut layers, mut position) = (cursors(table), MergePosition::default());
        let mut cursor = MergeCursor::new(&mut layers, &mut position);
        cursor.seek(&[]);
        let mut rows = Vec::new();
        while let Some((key, value)) = cursor.item() {
            rows.push((key.to_vec(), value.to_vec()));
            cursor.next();
        }
        rows
    }

    fn backward(table: &MemoryTable) -> TestRows {
        let (mut layers, mut position) = (cursors(table), MergePosition::default());
        let mut cursor = MergeCursor::new(&mut layers, &mut position);
        cursor.seek_for_prev(&[0xff; 12]);
        let mut rows = Vec::new();
        while let Some((key, value)) = cursor.item() {
            rows.push((key.to_vec(), value.to_vec()));
            cursor.prev();
        }
        rows.reverse();
        rows
    }

    proptest! {
        #[test]
        fn table_matches_map_and_copies_are_repeatable(
            commits in prop::collection::vec(prop::collection::vec((prop::collection::vec(0u8..3,
                0..5), prop::option::of(0u8..9)), 1..12), 0..40),
            seek in prop::collection::vec(0u8..3, 0..5),
        ) {
            let mut table = MemoryTable::default();
            let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
            let mut views = Vec::new();
            for commit in &commits {
                table.push(layer_of(commit), 0, 0, &mut |_| false);
                for (key, value) in commit {
                    match value {
                        Some(value) => model.insert(key.clone(), vec![*value]),
                        None => model.remove(key),
                    };
                }
                views.push((table.clone(), model.clone()));
            }
            for (table, model) in &views {
                let rows: TestRows = model.clone().into_iter().collect();
                prop_assert_eq!(&forward(table), &rows);
                prop_assert_eq!(&backward(table), &rows);
                prop_assert_eq!(table.get(&seek), model.get(&seek).map(Vec::as_slice));
                let (mut layers, mut position) = (cursors(table), MergePosition::default());
        let mut cursor = MergeCursor::new(&mut layers, &mut position);
                cursor.seek(&seek);
                prop_assert_eq!(cursor.key(), model.range(seek.clone()..).next()
                    .map(|(key, _)| key.as_slice()));
                cursor.seek_for_prev(&seek);
                prop_assert_eq!(cursor.key(), model.range(..=seek.clone()).next_back()
                    .map(|(key, _)| key.as_slice()));
            }
        }
    }

    #[test]
    fn merges_limit_layers_and_drop_overwritten_rows() {
        let mut table = MemoryTable::default();
        for round in 0..1000u32 {
            let rows: Vec<_> = (0..100u8).map(|n| (vec![n], Some(round as u8))).collect();
            table.push(layer_of(&rows), 0, 0, &mut |_| false);
        }
        assert!(table.layers.len() <= 4, "{} layers", table.layers.len());
        assert_eq!(forward(&table).len(), 100);
    }

    #[test]
    fn delete_lowers_approximate_rows() {
        let rows =
            |value: Option<u8>, n: u8| (0..n).map(|key| (vec![key], value)).collect::<Vec<_>>();
        let mut table = MemoryTable::default();
        table.push(layer_of(&rows(Some(1), 10)), 0, 0, &mut |_| false);
        assert_eq!(table.approximate_rows(), 10);
        // Only the last record of a key counts.
        table.push(
            layer_of(&[rows(None, 9), rows(Some(2), 2), rows(None, 9)].concat()),
            0,
            0,
            &mut |_| false,
        );
        assert_eq!(table.approximate_rows(), 1);
        for _ in 0..20 {
            table.push(layer_of(&rows(None, 10)), 0, 0, &mut |_| false);
            assert_eq!(table.approximate_rows(), 0);
        }
        table.push(layer_of(&rows(Some(3), 100)), 0, 0, &mut |_| false);
        assert!(
            table.approximate_rows() >= 70,
            "{}",
            table.approximate_rows()
        );
    }

    #[test]
    fn merge_of_all_layers_drops_expired_rows() {
        let mut table = MemoryTable::default();
        for n in 0..64u8 {
            table.push(layer_of(&[(vec![n], Some(n))]), 0, 0, &mut |key| {
                key[0] < 16
            });
        }
        let keys: Vec<u8> = forward(&table).iter().map(|(key, _)| key[0]).collect();
        assert_eq!(keys, (16..64).collect::<Vec<_>>());
    }
}
