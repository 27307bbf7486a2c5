//! A position in the stored rows of a table, in key order.

use super::base::Base;
use super::spilled_row;
use crate::error::Result;
use crate::rocks::{self, RawIterator, Snapshot};
use crate::table::Bounds;
use crate::transaction::merge::{MergeCursor, MergePosition, SeekableRows, SortedRows};
use crate::transaction::staged::layer_cursor::LayerCursor;
use crate::transaction::table::{Place, Table};
use std::sync::Arc;

/// A position in the rows of a table of a [`Base`].
pub(crate) enum TableCursor {
    Files(rocks::Cursor),
    /// Spilled rows over committed ones.
    Spilled {
        spilled: rocks::Cursor,
        committed: rocks::Cursor,
        position: MergePosition,
    },
    Memory {
        layers: Vec<LayerCursor>,
        position: MergePosition,
        /// Used to check that the database is still open.
        files: Arc<Snapshot>,
    },
}

impl TableCursor {
    /// Creates a cursor that has no row until it is moved. Only cursors over files have bounds.
    pub(in crate::transaction) fn new(base: &Base, table: Table, bounds: &Bounds) -> Result<Self> {
        match table.place {
            Place::Files(family) => {
                let committed = rocks::Cursor::new(base.files(), family, table.kind, bounds)?;
                let Some((snapshot, family)) = base.spilled_table(table) else {
                    return Ok(Self::Files(committed));
                };
                Ok(Self::Spilled {
                    spilled: rocks::Cursor::new(snapshot, family, table.kind, bounds)?,
                    committed,
                    position: MergePosition::default(),
                })
            }
            Place::Memory(number) => {
                let layers = base.table(number)?.layers().iter().cloned();
                Ok(Self::Memory {
                    layers: layers.map(LayerCursor::new).collect(),
                    position: MergePosition::default(),
                    files: Arc::clone(base.files()),
                })
            }
        }
    }

    /// Runs `f` on the rows. If they are in files, the database cannot be closed meanwhile.
    #[inline]
    pub(crate) fn with<R>(&mut self, f: impl FnOnce(&mut CursorRows<'_>) -> R) -> Result<R> {
        match self {
            Self::Files(cursor) => cursor.with(|rows| f(&mut CursorRows::Files(rows))),
            // The committed cursor is locked first: it fails if the database is closed.
            Self::Spilled {
                spilled,
                committed,
                position,
            } => committed.with(|committed| {
                spilled.with(|spilled| {
                    let mut sources = [FileRows::committed(committed), FileRows::spilled(spilled)];
                    f(&mut CursorRows::Spilled(MergeCursor::new(
                        &mut sources,
                        position,
                    )))
                })
            })?,
            Self::Memory {
                layers,
                position,
                files,
            } => {
                files.rocks().check_open()?;
                Ok(f(&mut CursorRows::Memory(MergeCursor::new(
                    layers, position,
                ))))
            }
        }
    }
}

/// Rows under a cursor, in key order.
pub(crate) enum CursorRows<'a> {
    Files(&'a mut RawIterator),
    Spilled(MergeCursor<'a, FileRows<'a>>),
    Memory(MergeCursor<'a, LayerCursor>),
}

macro_rules! on_rows {
    ($self:ident, $rows:ident => $call:expr) => {
        match $self {
            CursorRows::Files($rows) => $call,
            CursorRows::Spilled($rows) => $call,
            CursorRows::Memory($rows) => $call,
        }
    };
}

impl CursorRows<'_> {
    /// Moves to the first row within the cursor's bounds.
    pub(crate) fn seek_to_first(&mut self) {
        on_rows!(self, rows => rows.seek_to_first())
    }

    /// Moves to the last row within the cursor's bounds.
    pub(crate) fn seek_to_last(&mut self) {
        on_rows!(self, rows => rows.seek_to_last())
    }

    /// Moves to the first row whose key is at least `key`.
    #[inline]
    pub(crate) fn seek(&mut self, key: &[u8]) {
        on_rows!(self, rows => rows.seek(key))
    }

    /// Moves to the last row whose key is at most `key`.
    #[inline]
    pub(crate) fn seek_for_prev(&mut self, key: &[u8]) {
        on_rows!(self, rows => rows.seek_for_prev(key))
    }

    #[inline]
    pub(crate) fn next(&mut self) {
        on_rows!(self, rows => rows.next())
    }

    #[inline]
    pub(crate) fn prev(&mut self) {
        on_rows!(self, rows => rows.prev())
    }

    /// Whether there is a current row.
    #[inline]
    pub(crate) fn valid(&self) -> bool {
        self.key().is_some()
    }

    /// The key of the current row.
    #[inline]
    pub(crate) fn key(&self) -> Option<&[u8]> {
        on_rows!(self, rows => rows.key())
    }

    /// Key and value of the current row.
    #[inline]
    pub(crate) fn item(&self) -> Option<(&[u8], &[u8])> {
        on_rows!(self, rows => rows.item())
    }
}

/// Rows of a family, committed ones or spilled ones.
pub(crate) struct FileRows<'a> {
    rows: &'a mut RawIterator,
    spilled: bool,
}

impl<'a> FileRows<'a> {
    fn committed(rows: &'a mut RawIterator) -> Self {
        Self {
            rows,
            spilled: false,
        }
    }

    fn spilled(rows: &'a mut RawIterator) -> Self {
        Self {
            rows,
            spilled: true,
        }
    }
}

impl SortedRows for FileRows<'_> {
    #[inline]
    fn key(&self) -> Option<&[u8]> {
        self.rows.key()
    }

    #[inline]
    fn advance(&mut self, reverse: bool) {
        if reverse {
            self.rows.prev()
        } else {
            self.rows.next()
        }
    }
}

impl SeekableRows for FileRows<'_> {
    #[inline]
    fn item(&self) -> Option<(&[u8], &[u8])> {
        let (key, row) = self.rows.item()?;
        let value = if self.spilled {
            spilled_row::decode(row)?
        } else {
            row
        };
        Some((key, value))
    }

    #[inline]
    fn is_delete(&self) -> bool {
        self.spilled && self.rows.value().and_then(spilled_row::decode).is_none()
    }

    #[inline]
    fn seek(&mut self, key: &[u8], reverse: bool) {
        if reverse {
            self.rows.seek_for_prev(key)
        } else {
            self.rows.seek(key)
        }
    }

    fn seek_to_end(&mut self, reverse: bool) {
        if reverse {
            self.rows.seek_to_last()
        } else {
            self.rows.seek_to_first()
        }
    }
}
