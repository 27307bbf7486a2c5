//! Staged and stored rows of a table as one ordered sequence: forward, backward, within bounds.

use super::base::{Cursor, Rows};
use super::cleared::Cleared;
use super::layer::Layer;
use crate::error::Result;
use crate::metrics::OpenIterator;
use crate::rocks::Snapshot;
use crate::table::Bounds;
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

/// What a row's visitor wants next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The row that follows.
    Next,
    /// Nothing more for now; the scan can be resumed behind this row.
    Pause,
    /// Go on at this key, which lies ahead (forward scans only).
    Seek(Vec<u8>),
}

/// An ordered scan of one table, as it was when the scan was opened: later writes, commits and
/// rollbacks do not show.
pub struct Scan {
    layers: Vec<Staged>,
    stored: Stored,
    bounds: Bounds,
    reverse: bool,
    state: State,
    /// That it is open, where that is counted.
    _open: Option<OpenIterator>,
}

/// Rows below the layers.
enum Stored {
    /// With the rows among them that are deleted.
    Files(Cursor, Cleared),
    /// None: the table is in memory, all of it layers. The snapshot's database says whether the
    /// database is still open.
    Nothing(Arc<Snapshot>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Fresh,
    Open,
    Done,
}

/// A frozen layer and a position in its order.
struct Staged {
    layer: Arc<Layer>,
    /// Position of the current row; equal to `end` when there is none.
    at: usize,
    low: usize,
    end: usize,
    /// Positions whose records the processor has at hand.
    at_hand: Range<usize>,
}

/// So many staged rows are fetched at once.
const AHEAD: usize = 8;

impl Staged {
    /// Fetches the next rows' records. They lie anywhere in memory: several at a time cost little
    /// more than one.
    fn look_ahead(&mut self, reverse: bool) {
        if self.at_hand.contains(&self.at) || self.at == self.end {
            return;
        }
        self.at_hand = if reverse {
            self.at.saturating_sub(AHEAD - 1).max(self.low)..self.at + 1
        } else {
            self.at..self.end.min(self.at + AHEAD)
        };
        self.layer.touch(self.at_hand.clone());
    }

    fn key(&self) -> Option<&[u8]> {
        (self.at < self.end).then(|| self.layer.key(self.layer.run()[self.at].record()))
    }

    /// Key and value of the current row; no value for a delete.
    fn row(&self) -> Option<(&[u8], Option<&[u8]>)> {
        (self.at < self.end).then(|| self.layer.row(self.layer.run()[self.at].record()))
    }

    /// Moves to the first row at or behind a key, or to the last one at or before it.
    fn turn(&mut self, key: &[u8], reverse: bool) {
        self.at_hand = 0..0;
        self.at = self.layer.run_position(key).clamp(self.low, self.end);
        if reverse && self.key() != Some(key) {
            self.at = if self.at > self.low {
                self.at - 1
            } else {
                self.end
            };
        }
    }

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

/// Where a visit of stored rows ended.
enum Until {
    /// At or behind the staged row, or with the rows.
    Limit { same: bool },
    /// The visitor wants something else than the next row.
    Stopped(Step),
}

/// Stored rows under a cursor, and which of them are deleted.
struct StoredRows<'a, 'c> {
    rows: &'a mut Rows<'c>,
    cleared: &'a Cleared,
}

impl StoredRows<'_, '_> {
    /// Visits the rows before `limit`, a staged row's key.
    fn visit_until(
        &mut self,
        limit: Option<&[u8]>,
        reverse: bool,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> Step,
    ) -> Until {
        while let Some((key, value)) = self.rows.item() {
            if let Some(limit) = limit {
                match if reverse {
                    limit.cmp(key)
                } else {
                    key.cmp(limit)
                } {
                    Ordering::Less => {}
                    Ordering::Equal => return Until::Limit { same: true },
                    Ordering::Greater => return Until::Limit { same: false },
                }
            }
            match visit(key, value) {
                Step::Next => self.advance(reverse),
                Step::Pause => {
                    self.advance(reverse);
                    return Until::Stopped(Step::Pause);
                }
                seek => return Until::Stopped(seek),
            }
        }
        Until::Limit { same: false }
    }

    fn advance(&mut self, reverse: bool) {
        if reverse {
            self.rows.prev()
        } else {
            self.rows.next()
        }
        self.pass_cleared(reverse);
    }

    /// Moves on to a row that is not deleted.
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
    /// A scan of staged rows over stored ones, without those that were cleared.
    pub(super) fn new(
        layers: Vec<Arc<Layer>>,
        cursor: Cursor,
        cleared: Cleared,
        bounds: Bounds,
        reverse: bool,
    ) -> Self {
        Self::over(layers, Stored::Files(cursor, cleared), bounds, reverse)
    }

    /// A scan of a table in memory: committed and staged layers, oldest first.
    pub(super) fn in_memory(
        layers: Vec<Arc<Layer>>,
        files: Arc<Snapshot>,
        bounds: Bounds,
        reverse: bool,
    ) -> Self {
        Self::over(layers, Stored::Nothing(files), bounds, reverse)
    }

    fn over(layers: Vec<Arc<Layer>>, stored: Stored, bounds: Bounds, reverse: bool) -> Self {
        let layers = layers
            .into_iter()
            .map(|layer| {
                let low = bounds
                    .lower
                    .as_ref()
                    .map_or(0, |key| layer.run_position(key));
                let end = bounds
                    .upper
                    .as_ref()
                    .map_or(layer.run().len(), |key| layer.run_position(key))
                    .max(low);
                let at = if reverse && end > low { end - 1 } else { low };
                Staged {
                    layer,
                    at,
                    low,
                    end,
                    at_hand: 0..0,
                }
            })
            .collect();
        Self {
            layers,
            stored,
            bounds,
            reverse,
            state: State::Fresh,
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

    /// Goes on from a key: from the first row at or behind it, or backward from the last one at or
    /// before it. Rows out of its bounds stay so; and a scan that has ended begins again.
    pub fn turn(&mut self, key: &[u8], reverse: bool) -> Result<()> {
        for layer in &mut self.layers {
            layer.turn(key, reverse);
        }
        (self.reverse, self.state) = (reverse, State::Open);
        match &mut self.stored {
            Stored::Files(cursor, cleared) => cursor.with(|rows| {
                if reverse {
                    rows.seek_for_prev(key);
                } else {
                    rows.seek(key);
                }
                StoredRows { rows, cleared }.pass_cleared(reverse);
            }),
            Stored::Nothing(files) => files.rocks().check_open(),
        }
    }

    /// Hands rows to `visit` until it pauses or the rows end; true when it paused.
    ///
    /// A staged row hides the stored one of the same key, a newer layer the older; deleted rows are
    /// passed over.
    pub fn for_each(&mut self, visit: &mut dyn FnMut(&[u8], &[u8]) -> Step) -> Result<bool> {
        if self.state == State::Done {
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
            Stored::Files(cursor, cleared) => cursor.with(|rows| {
                let stored = StoredRows { rows, cleared };
                Self::merge(layers, Some(stored), bounds, *reverse, state, visit)
            }),
            Stored::Nothing(files) => {
                files.rocks().check_open()?;
                Ok(Self::merge(layers, None, bounds, *reverse, state, visit))
            }
        }
    }

    fn merge(
        layers: &mut [Staged],
        mut stored: Option<StoredRows<'_, '_>>,
        bounds: &Bounds,
        reverse: bool,
        state: &mut State,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> Step,
    ) -> bool {
        if *state == State::Fresh {
            if let Some(stored) = &mut stored {
                match (reverse, &bounds.lower) {
                    (true, _) => stored.rows.seek_to_last(),
                    (false, Some(lower)) => stored.rows.seek(lower),
                    (false, None) => stored.rows.seek_to_first(),
                }
                stored.pass_cleared(reverse);
            }
            *state = State::Open;
        }
        loop {
            let best = Self::nearest(layers, reverse);
            let mut hides_stored = false;
            let mut step = Step::Next;
            if let Some(stored) = &mut stored {
                match stored.visit_until(best.and_then(|n| layers[n].key()), reverse, visit) {
                    Until::Limit { same } => hides_stored = same,
                    Until::Stopped(Step::Pause) => return true,
                    Until::Stopped(other) => step = other,
                }
            }
            match (best, &step) {
                (None, Step::Next) => {
                    *state = State::Done;
                    return false;
                }
                (Some(n), Step::Next) => {
                    if let Some((key, Some(value))) = layers[n].row() {
                        step = visit(key, value);
                    }
                    if !matches!(step, Step::Seek(_)) {
                        Self::pass(layers, n, reverse);
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
                        layer.at = layer
                            .layer
                            .run_position(&key)
                            .clamp(layer.low, layer.end)
                            .max(layer.at);
                    }
                    // One that has ended has nothing ahead either.
                    if let Some(stored) = stored.as_mut().filter(|stored| stored.rows.valid()) {
                        stored.rows.seek(&key);
                        stored.pass_cleared(reverse);
                    }
                }
            }
        }
    }

    /// The layer with the nearest staged key; of equals the newest, which comes last.
    fn nearest(layers: &mut [Staged], reverse: bool) -> Option<usize> {
        let mut best: Option<usize> = None;
        for n in 0..layers.len() {
            layers[n].look_ahead(reverse);
            let Some(key) = layers[n].key() else { continue };
            let nearer = best
                .and_then(|b| layers[b].key())
                .is_none_or(|b| if reverse { key >= b } else { key <= b });
            if nearer {
                best = Some(n);
            }
        }
        best
    }

    /// Moves all layers behind the key where layer `n` stands.
    fn pass(layers: &mut [Staged], n: usize, reverse: bool) {
        // Older layers may hold the same key; they come before `n`.
        for older in 0..n {
            while layers[older].key().is_some() && layers[older].key() == layers[n].key() {
                layers[older].advance(reverse);
            }
        }
        layers[n].advance(reverse);
    }
}
