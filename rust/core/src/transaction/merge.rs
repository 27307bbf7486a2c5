//! Sorted sources as one sorted sequence.
//!
//! Sources are given oldest first. If rows have equal keys, the row of the last source is the
//! newest and hides the others.

/// Rows sorted by key, each key once, and a position among them.
pub(crate) trait SortedRows {
    /// The key of the current row; `None` at the end.
    fn key(&self) -> Option<&[u8]>;

    /// Moves to the next row, or (`reverse`) to the one before.
    fn advance(&mut self, reverse: bool);
}

/// Sorted rows that can be sought.
pub(crate) trait SeekableRows: SortedRows {
    /// Key and value of the current row; `None` for a delete and at the end.
    fn item(&self) -> Option<(&[u8], &[u8])>;

    /// Whether the current row is a delete, which hides older rows of its key.
    fn is_delete(&self) -> bool;

    /// Moves to the first row at or after `key`, or (`reverse`) to the last one at or before it.
    fn seek(&mut self, key: &[u8], reverse: bool);

    /// Moves to the first row, or (`reverse`) to the last one.
    fn seek_to_end(&mut self, reverse: bool);
}

/// The position of the smallest key, or (`reverse`) of the greatest; among equal keys, the last.
#[inline]
pub(crate) fn nearest<'k>(
    keys: impl IntoIterator<Item = Option<&'k [u8]>>,
    reverse: bool,
) -> Option<usize> {
    let mut best: Option<(usize, &[u8])> = None;
    for (n, key) in keys.into_iter().enumerate() {
        let Some(key) = key else { continue };
        if best.is_none_or(|(_, best)| if reverse { key >= best } else { key <= best }) {
            best = Some((n, key));
        }
    }
    best.map(|(n, _)| n)
}

/// Moves all sources past the key of source `n`, which must be the newest with that key.
#[inline]
pub(crate) fn pass<S: SortedRows>(sources: &mut [S], n: usize, reverse: bool) {
    let (older, newer) = sources.split_at_mut(n);
    let Some(source) = newer.first_mut() else {
        return;
    };
    if let Some(key) = source.key() {
        for older in older {
            if older.key() == Some(key) {
                older.advance(reverse);
            }
        }
    }
    source.advance(reverse);
}

/// Calls `f` once for each key, in ascending order, with the source that has its newest row.
///
/// # Errors
/// Those of `f`.
#[inline]
pub(crate) fn for_each_newest<S: SortedRows, E>(
    sources: &mut [S],
    mut f: impl FnMut(&S) -> Result<(), E>,
) -> Result<(), E> {
    while let Some(n) = nearest(sources.iter().map(S::key), false) {
        f(&sources[n])?;
        pass(sources, n, false);
    }
    Ok(())
}

/// The current row of a [`MergeCursor`].
#[derive(Default)]
pub(crate) struct MergePosition {
    source: Option<usize>,
    reverse: bool,
}

/// A cursor over the newest row of each key; deletes, and the rows that they hide, are skipped.
///
/// After a forward move all sources are at or after its row, after a backward move at or before it.
pub(crate) struct MergeCursor<'a, S> {
    sources: &'a mut [S],
    position: &'a mut MergePosition,
}

impl<'a, S: SeekableRows> MergeCursor<'a, S> {
    /// A cursor that continues at `position`.
    pub(crate) fn new(sources: &'a mut [S], position: &'a mut MergePosition) -> Self {
        Self { sources, position }
    }

    pub(crate) fn seek_to_first(&mut self) {
        self.seek_to_end(false);
    }

    pub(crate) fn seek_to_last(&mut self) {
        self.seek_to_end(true);
    }

    /// Moves to the first row whose key is at least `key`.
    pub(crate) fn seek(&mut self, key: &[u8]) {
        self.seek_sources(key, false);
        self.settle(false);
    }

    /// Moves to the last row whose key is at most `key`.
    pub(crate) fn seek_for_prev(&mut self, key: &[u8]) {
        self.seek_sources(key, true);
        self.settle(true);
    }

    pub(crate) fn next(&mut self) {
        self.step(false);
    }

    pub(crate) fn prev(&mut self) {
        self.step(true);
    }

    pub(crate) fn key(&self) -> Option<&[u8]> {
        self.sources[self.position.source?].key()
    }

    pub(crate) fn item(&self) -> Option<(&[u8], &[u8])> {
        self.sources[self.position.source?].item()
    }

    fn seek_to_end(&mut self, reverse: bool) {
        for source in &mut *self.sources {
            source.seek_to_end(reverse);
        }
        self.settle(reverse);
    }

    fn seek_sources(&mut self, key: &[u8], reverse: bool) {
        for source in &mut *self.sources {
            source.seek(key, reverse);
        }
    }

    fn step(&mut self, reverse: bool) {
        let Some(n) = self.position.source else {
            return;
        };
        if self.position.reverse != reverse {
            // The other sources may be on the wrong side of the current row.
            let Some(key) = self.key().map(<[u8]>::to_vec) else {
                return;
            };
            self.seek_sources(&key, reverse);
        }
        pass(self.sources, n, reverse);
        self.settle(reverse);
    }

    /// Finds the source with the nearest row, and skips deletes.
    fn settle(&mut self, reverse: bool) {
        self.position.reverse = reverse;
        self.position.source = loop {
            let Some(n) = nearest(self.sources.iter().map(S::key), reverse) else {
                break None;
            };
            if !self.sources[n].is_delete() {
                break Some(n);
            }
            pass(self.sources, n, reverse);
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    struct TestRows {
        rows: Vec<([u8; 1], Option<[u8; 1]>)>,
        at: Option<usize>,
    }

    impl SortedRows for TestRows {
        fn key(&self) -> Option<&[u8]> {
            self.rows.get(self.at?).map(|(key, _)| key.as_slice())
        }

        fn advance(&mut self, reverse: bool) {
            self.at = self.at.and_then(|at| {
                if reverse {
                    at.checked_sub(1)
                } else {
                    Some(at + 1)
                }
            });
        }
    }

    impl SeekableRows for TestRows {
        fn item(&self) -> Option<(&[u8], &[u8])> {
            let (key, value) = self.rows.get(self.at?)?;
            Some((key, value.as_ref()?))
        }

        fn is_delete(&self) -> bool {
            self.item().is_none()
        }

        fn seek(&mut self, key: &[u8], reverse: bool) {
            let at = self.rows.partition_point(|(row, _)| row.as_slice() < key);
            let exact = self.rows.get(at).is_some_and(|(row, _)| row == key);
            self.at = if reverse && !exact {
                at.checked_sub(1)
            } else {
                Some(at)
            };
        }

        fn seek_to_end(&mut self, reverse: bool) {
            self.at = if reverse {
                self.rows.len().checked_sub(1)
            } else {
                Some(0)
            };
        }
    }

    proptest! {
        #[test]
        fn merge_matches_map(
            sources in prop::collection::vec(
                prop::collection::btree_map(0u8..20, prop::option::of(0u8..9), 0..10), 0..4),
            moves in prop::collection::vec((0u8..6, 0u8..20), 0..40),
        ) {
            let newest: BTreeMap<u8, Option<u8>> =
                sources.iter().flatten().map(|(key, value)| (*key, *value)).collect();
            let rows = || -> Vec<TestRows> {
                sources
                    .iter()
                    .map(|rows| TestRows {
                        rows: rows.iter().map(|(k, v)| ([*k], v.map(|v| [v]))).collect(),
                        at: Some(0),
                    })
                    .collect()
            };
            let mut each = Vec::new();
            for_each_newest(&mut rows(), |source| {
                each.push((source.key().map(|k| k[0]), source.item().map(|(_, v)| v[0])));
                Ok::<(), ()>(())
            }).expect("no error");
            let expected: Vec<_> = newest.iter().map(|(k, v)| (Some(*k), *v)).collect();
            prop_assert_eq!(each, expected);

            let live: BTreeMap<u8, u8> =
                newest.into_iter().filter_map(|(k, v)| Some((k, v?))).collect();
            let (mut sources, mut position) = (rows(), MergePosition::default());
            let mut at: Option<u8> = None;
            for (kind, key) in moves {
                let mut cursor = MergeCursor::new(&mut sources, &mut position);
                match kind {
                    0 => { cursor.seek_to_first(); at = live.keys().next().copied(); }
                    1 => { cursor.seek_to_last(); at = live.keys().next_back().copied(); }
                    2 => { cursor.seek(&[key]); at = live.range(key..).next().map(|r| *r.0); }
                    3 => {
                        cursor.seek_for_prev(&[key]);
                        at = live.range(..=key).next_back().map(|r| *r.0);
                    }
                    4 => {
                        cursor.next();
                        at = at.and_then(|k| live.range(k + 1..).next().map(|r| *r.0));
                    }
                    _ => {
                        cursor.prev();
                        at = at.and_then(|k| live.range(..k).next_back().map(|r| *r.0));
                    }
                }
                prop_assert_eq!(cursor.key().map(|k| k[0]), at);
                prop_assert_eq!(
                    cursor.item().map(|(k, v)| (k[0], v[0])),
                    at.map(|k| (k, live[&k]))
                );
            }
        }
    }
}
