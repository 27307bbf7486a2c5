//! A scan merges staged and stored rows of a table: forward or backward, within bounds.

use super::key_chunk::KeyChunk;
use super::merge::{SeekableRows, SortedRows, nearest, pass};
use super::staged::cleared::Cleared;
use super::staged::layer::Layer;
use super::staged::layer_cursor::LayerCursor;
use super::stored::cursor::{CursorRows, TableCursor};
use crate::error::Result;
use crate::metrics::OpenIterator;
use crate::rocks::Snapshot;
use crate::table::Bounds;
use std::cmp::Ordering;
use std::sync::Arc;

/// What a scan does after a row was visited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Visits the next row.
    Next,
    /// Stops; the scan can be resumed after this row.
    Pause,
    /// Continues at this key, which must be ahead (forward scans only).
    Seek(Vec<u8>),
}

/// An ordered scan of one table, as it was when the scan was opened. Later writes, commits and
/// rollbacks are not visible.
pub struct Scan {
    layers: Vec<LayerCursor>,
    stored: StoredSource,
    bounds: Bounds,
    reverse: bool,
    state: ScanState,
    /// Counts the scan as open in the metrics.
    _open: Option<OpenIterator>,
}

/// Rows below the layers.
enum StoredSource {
    /// Rows in files, and the deleted intervals among them.
    Files(TableCursor, Cleared),
    /// No rows: the table is in memory and consists of layers. The snapshot is for the check that
    /// the database is still open.
    Nothing(Arc<Snapshot>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ScanState {
    Fresh,
    Open,
    Done,
}

/// Where a visit of stored rows ended.
enum VisitEnd {
    /// At or after the staged row, or after the last row.
    Limit { same: bool },
    /// The visitor returned a step other than `Next`.
    Stopped(Step),
}

/// Stored rows under a cursor, and the intervals of them that are deleted.
struct StoredRows<'a, 'c> {
    rows: &'a mut CursorRows<'c>,
    cleared: &'a Cleared,
}

impl StoredRows<'_, '_> {
    /// Visits the rows before `limit`, a staged row's key.
    fn visit_until(
        &mut self,
        limit: Option<&[u8]>,
        reverse: bool,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> Step,
    ) -> VisitEnd {
        while let Some((key, value)) = self.rows.item() {
            if let Some(limit) = limit {
                match if reverse {
                    limit.cmp(key)
                } else {
                    key.cmp(limit)
                } {
                    Ordering::Less => {}
                    Ordering::Equal => return VisitEnd::Limit { same: true },
                    Ordering::Greater => return VisitEnd::Limit { same: false },
                }
            }
            match visit(key, value) {
                Step::Next => self.advance(reverse),
                Step::Pause => {
                    self.advance(reverse);
                    return VisitEnd::Stopped(Step::Pause);
                }
                seek => return VisitEnd::Stopped(seek),
            }
        }
        VisitEnd::Limit { same: false }
    }

    fn advance(&mut self, reverse: bool) {
        if reverse {
            self.rows.prev()
        } else {
            self.rows.next()
        }
        self.pass_cleared(reverse);
    }

    /// Skips deleted rows.
    #[inline]
    fn pass_cleared(&mut self, reverse: bool) {
        if !self.cleared.is_empty() {
            self.seek_past(reverse);
        }
    }

    #[cold]
    fn seek_past(&mut self, reverse: bool) {
        while let Some(interval) = self.rows.key().and_then(|key| self.cleared.around(key)) {
            if !reverse {
                self.rows.seek(&interval.to);
            } else {
                self.rows.seek_for_prev(&interval.from);
                if self.rows.key() == Some(interval.from.as_slice()) {
                    self.rows.prev();
                }
            }
        }
    }
}

impl Scan {
    /// A scan of staged rows over stored ones. It skips stored rows in `cleared`.
    pub(super) fn new(
        layers: Vec<Arc<Layer>>,
        cursor: TableCursor,
        cleared: Cleared,
        bounds: Bounds,
        reverse: bool,
    ) -> Self {
        Self::over(
            layers,
            StoredSource::Files(cursor, cleared),
            bounds,
            reverse,
        )
    }

    /// A scan of a table in memory: committed and staged layers, oldest first.
    pub(super) fn in_memory(
        layers: Vec<Arc<Layer>>,
        files: Arc<Snapshot>,
        bounds: Bounds,
        reverse: bool,
    ) -> Self {
        Self::over(layers, StoredSource::Nothing(files), bounds, reverse)
    }

    fn over(layers: Vec<Arc<Layer>>, stored: StoredSource, bounds: Bounds, reverse: bool) -> Self {
        let layers = layers
            .into_iter()
            .map(|layer| LayerCursor::within(layer, &bounds, reverse))
            .collect();
        Self {
            layers,
            stored,
            bounds,
            reverse,
            state: ScanState::Fresh,
            _open: None,
        }
    }

    /// The same scan, counted as open until it is dropped.
    pub(crate) fn counted(self, open: OpenIterator) -> Self {
        Self {
            _open: Some(open),
            ..self
        }
    }

    /// Continues forward from the first row at or after a key, or backward from the last one at or
    /// before it. The bounds still apply. A scan that has ended starts again.
    pub fn turn(&mut self, key: &[u8], reverse: bool) -> Result<()> {
        for layer in &mut self.layers {
            layer.seek(key, reverse);
        }
        (self.reverse, self.state) = (reverse, ScanState::Open);
        match &mut self.stored {
            StoredSource::Files(cursor, cleared) => cursor.with(|rows| {
                if reverse {
                    rows.seek_for_prev(key);
                } else {
                    rows.seek(key);
                }
                StoredRows { rows, cleared }.pass_cleared(reverse);
            }),
            StoredSource::Nothing(files) => files.rocks().check_open(),
        }
    }

    /// Calls `f` with the key of each remaining row. Keys are read in chunks and no read runs
    /// during a call, so `f` may write to the transaction.
    pub fn each_key(&mut self, f: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let (mut keys, mut is_paused) = (KeyChunk::default(), true);
        while is_paused {
            is_paused = self.for_each(&mut |key, _| {
                if keys.push(key) {
                    Step::Next
                } else {
                    Step::Pause
                }
            })?;
            keys.drain(f)?;
        }
        Ok(())
    }

    /// Calls `visit` with each row until it pauses or the rows end. Returns true if it paused.
    ///
    /// If keys are equal, a staged row hides the stored row, and a newer layer hides an older one.
    /// Deleted rows are skipped.
    pub fn for_each(&mut self, visit: &mut dyn FnMut(&[u8], &[u8]) -> Step) -> Result<bool> {
        if self.state == ScanState::Done {
            return Ok(false);
        }
        let Self {
            layers,
            stored,
            bounds,
            reverse,
            state,
            ..
        } = self;
        match stored {
            StoredSource::Files(cursor, cleared) => cursor.with(|rows| {
                let stored = StoredRows { rows, cleared };
                Self::merge(layers, Some(stored), bounds, *reverse, state, visit)
            }),
            StoredSource::Nothing(files) => {
                files.rocks().check_open()?;
                Ok(Self::merge(layers, None, bounds, *reverse, state, visit))
            }
        }
    }

    fn merge(
        layers: &mut [LayerCursor],
        mut stored: Option<StoredRows<'_, '_>>,
        bounds: &Bounds,
        reverse: bool,
        state: &mut ScanState,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> Step,
    ) -> bool {
        if *state == ScanState::Fresh {
            if let Some(stored) = &mut stored {
                match (reverse, &bounds.lower) {
                    (true, _) => stored.rows.seek_to_last(),
                    (false, Some(lower)) => stored.rows.seek(lower),
                    (false, None) => stored.rows.seek_to_first(),
                }
                stored.pass_cleared(reverse);
            }
            *state = ScanState::Open;
        }
        loop {
            for layer in layers.iter_mut() {
                layer.prefetch(reverse);
            }
            let best = nearest(layers.iter().map(SortedRows::key), reverse);
            let mut hides_stored = false;
            let mut step = Step::Next;
            if let Some(stored) = &mut stored {
                match stored.visit_until(best.and_then(|n| layers[n].key()), reverse, visit) {
                    VisitEnd::Limit { same } => hides_stored = same,
                    VisitEnd::Stopped(Step::Pause) => return true,
                    VisitEnd::Stopped(other) => step = other,
                }
            }
            match (best, &step) {
                (None, Step::Next) => {
                    *state = ScanState::Done;
                    return false;
                }
                (Some(n), Step::Next) => {
                    if let Some((key, Some(value))) = layers[n].row() {
                        step = visit(key, value);
                    }
                    if !matches!(step, Step::Seek(_)) {
                        pass(layers, n, reverse);
                        if let Some(stored) = stored.as_mut().filter(|_| hides_stored) {
                            stored.advance(reverse);
                        }
                    }
                }
                _ => {}
            }
            match step {
                Step::Next => {}
                Step::Pause => return true,
                Step::Seek(key) => {
                    for layer in layers.iter_mut() {
                        layer.skip_to(&key);
                    }
                    // A cursor that has ended has no rows ahead.
                    if let Some(stored) = stored.as_mut().filter(|stored| stored.rows.valid()) {
                        stored.rows.seek(&key);
                        stored.pass_cleared(reverse);
                    }
                }
            }
        }
    }
}
