//! What a transaction stands on: the last commit of all tables, those in files and those in memory.

use super::memory::{MemoryCursor, MemoryTable};
use super::{Place, Table};
use crate::error::Result;
use crate::position::Position;
use crate::rocks::{self, Bounds, RawIterator, Snapshot};
use std::sync::Arc;

/// One commit, pinned.
pub(crate) struct Base {
    files: Arc<Snapshot>,
    memory: Vec<MemoryTable>,
    position: Position,
}

impl Base {
    pub(crate) fn new(files: Arc<Snapshot>, memory: Vec<MemoryTable>, position: Position) -> Arc<Self> {
        Arc::new(Self { files, memory, position })
    }

    /// The input position that the commit reached.
    pub(crate) fn position(&self) -> &Position {
        &self.position
    }

    /// The tables in files.
    pub(crate) fn files(&self) -> &Arc<Snapshot> {
        &self.files
    }

    /// The tables in memory.
    pub(crate) fn memory(&self) -> &[MemoryTable] {
        &self.memory
    }

    /// A table in memory, as long as its task is open.
    pub(super) fn table(&self, number: usize) -> Result<&MemoryTable> {
        self.files.database().check_open()?;
        Ok(&self.memory[number])
    }

    #[inline]
    pub(super) fn get<R>(&self, table: Table, key: &[u8], f: impl FnOnce(Option<&[u8]>) -> R) -> Result<R> {
        match table.place {
            Place::Files(family) => self.files.database().get(family, key, &self.files, f),
            Place::Memory(number) => Ok(f(self.table(number)?.get(key))),
        }
    }

    /// Reads many keys in ascending order; `f` is called for each, in order.
    pub(super) fn get_sorted(&self, table: Table, keys: &[&[u8]], mut f: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        match table.place {
            Place::Files(family) => self.files.database().multi_get_sorted(family, keys, &self.files, f),
            Place::Memory(number) => {
                let rows = self.table(number)?;
                keys.iter().enumerate().for_each(|(n, key)| f(n, rows.get(key)));
                Ok(())
            }
        }
    }

    /// A cursor that stands nowhere yet.
    pub(super) fn cursor(&self, table: Table, bounds: &Bounds) -> Result<Cursor> {
        match table.place {
            Place::Files(family) => Ok(Cursor::Files(rocks::Cursor::new(&self.files, family, table.kind, bounds)?)),
            Place::Memory(number) => Ok(Cursor::Memory(MemoryCursor::new(self.table(number)?), Arc::clone(&self.files))),
        }
    }

    /// About how many rows a table has.
    pub(crate) fn approximate_rows(&self, table: Table) -> Result<u64> {
        match table.place {
            Place::Files(family) => self.files.database().family_property(family, "rocksdb.estimate-num-keys"),
            Place::Memory(number) => Ok(self.table(number)?.approximate_rows() as u64),
        }
    }
}

/// A position in a table of a [`Base`].
pub(crate) enum Cursor {
    Files(rocks::Cursor),
    /// With the snapshot whose database says whether the task is still open.
    Memory(MemoryCursor, Arc<Snapshot>),
}

impl Cursor {
    /// Works on the rows, held open for the length of the call.
    #[inline]
    pub(crate) fn with<R>(&mut self, f: impl FnOnce(&mut Rows<'_>) -> R) -> Result<R> {
        match self {
            Self::Files(cursor) => cursor.with(|rows| f(&mut Rows::Files(rows))),
            Self::Memory(cursor, files) => {
                files.database().check_open()?;
                Ok(f(&mut Rows::Memory(cursor)))
            }
        }
    }
}

/// Rows under a cursor, in key order.
pub(crate) enum Rows<'a> {
    Files(&'a mut RawIterator),
    Memory(&'a mut MemoryCursor),
}

macro_rules! on_rows {
    ($self:ident, $rows:ident => $call:expr) => {
        match $self {
            Rows::Files($rows) => $call,
            Rows::Memory($rows) => $call,
        }
    };
}

impl Rows<'_> {
    pub(crate) fn seek_to_first(&mut self) {
        match self {
            Self::Files(rows) => rows.seek_to_first(),
            Self::Memory(rows) => rows.seek(&[]),
        }
    }

    /// To the last row within the cursor's bounds; only cursors over files have bounds.
    pub(crate) fn seek_to_last(&mut self) {
        match self {
            Self::Files(rows) => rows.seek_to_last(),
            Self::Memory(rows) => rows.seek_to_last(),
        }
    }

    /// To the first row whose key is at least `key`.
    #[inline]
    pub(crate) fn seek(&mut self, key: &[u8]) {
        on_rows!(self, rows => rows.seek(key))
    }

    /// To the last row whose key is at most `key`.
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

    /// Whether it stands on a row.
    #[inline]
    pub(crate) fn valid(&self) -> bool {
        self.key().is_some()
    }

    /// The key of the row it stands on.
    #[inline]
    pub(crate) fn key(&self) -> Option<&[u8]> {
        on_rows!(self, rows => rows.key())
    }

    /// Key and value of the row it stands on.
    #[inline]
    pub(crate) fn item(&self) -> Option<(&[u8], &[u8])> {
        on_rows!(self, rows => rows.item())
    }
}
