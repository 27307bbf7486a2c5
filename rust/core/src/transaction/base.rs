//! What a transaction stands on: the last commit of all tables, those in files and those in memory,
//! and what of its own writes it has spilled.

use super::memory::{MemoryCursor, MemoryTable};
use super::merged::{self, Merged};
use super::{Place, Table};
use crate::error::Result;
use crate::position::Position;
use crate::rocks::{self, Family, RawIterator, Snapshot};
use crate::table::Bounds;
use std::sync::Arc;

/// One commit, pinned; or one with a transaction's spilled rows over it, pinned too.
pub(crate) struct Base {
    files: Arc<Snapshot>,
    memory: Vec<MemoryTable>,
    position: Position,
    spilled: Option<Spilled>,
}

/// A transaction's spilled rows, and the commit below them.
struct Spilled {
    committed: Arc<Base>,
    rows: SpilledRows,
}

/// Spilled rows as of a moment.
#[derive(Clone)]
pub(crate) struct SpilledRows {
    pub(super) snapshot: Arc<Snapshot>,
    /// By a table's number; tables in memory and those of stores without transactions have none.
    pub(super) families: Arc<[Option<Family>]>,
}

impl Base {
    pub(crate) fn new(
        files: Arc<Snapshot>,
        memory: Vec<MemoryTable>,
        position: Position,
    ) -> Arc<Self> {
        Arc::new(Self {
            files,
            memory,
            position,
            spilled: None,
        })
    }

    /// The commit with spilled rows over it.
    pub(super) fn with_spilled(committed: &Arc<Self>, rows: SpilledRows) -> Arc<Self> {
        let spilled = Some(Spilled {
            committed: Arc::clone(committed),
            rows,
        });
        let (memory, position) = (committed.memory.clone(), committed.position.clone());
        Arc::new(Self {
            files: Arc::clone(&committed.files),
            memory,
            position,
            spilled,
        })
    }

    /// The commit itself.
    pub(crate) fn committed(self: &Arc<Self>) -> &Arc<Self> {
        self.spilled
            .as_ref()
            .map_or(self, |spilled| &spilled.committed)
    }

    /// What is spilled over the commit.
    pub(crate) fn spilled(&self) -> Option<&SpilledRows> {
        self.spilled.as_ref().map(|spilled| &spilled.rows)
    }

    /// Where a table's rows are spilled.
    fn spilled_table(&self, table: Table) -> Option<(&Snapshot, Family)> {
        let rows = self.spilled()?;
        Some((&rows.snapshot, rows.families[table.number]?))
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

    /// A table in memory, as long as its database is open.
    pub(super) fn table(&self, number: usize) -> Result<&MemoryTable> {
        self.files.rocks().check_open()?;
        Ok(&self.memory[number])
    }

    #[inline]
    pub(super) fn get<R>(
        &self,
        table: Table,
        key: &[u8],
        f: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R> {
        match table.place {
            Place::Files(family) => match self.spilled_table(table) {
                None => self.files.rocks().get(family, key, &self.files, f),
                Some((snapshot, own)) => {
                    self.files.rocks().check_open()?;
                    let found = snapshot.rocks().get(own, key, snapshot, |row| match row {
                        Some(row) => Ok(f(merged::value(row))),
                        None => Err(f),
                    })?;
                    found.or_else(|f| self.files.rocks().get(family, key, &self.files, f))
                }
            },
            Place::Memory(number) => Ok(f(self.table(number)?.get(key))),
        }
    }

    /// Reads many keys in ascending order; `f` is called for each, in order.
    pub(super) fn get_sorted(
        &self,
        table: Table,
        keys: &[&[u8]],
        mut f: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        match table.place {
            Place::Files(family) => match self.spilled_table(table) {
                None => self
                    .files
                    .rocks()
                    .multi_get_sorted(family, keys, &self.files, f),
                Some((snapshot, own)) => self.get_merged(family, (snapshot, own), keys, &mut f),
            },
            Place::Memory(number) => {
                let rows = self.table(number)?;
                keys.iter()
                    .enumerate()
                    .for_each(|(n, key)| f(n, rows.get(key)));
                Ok(())
            }
        }
    }

    /// As `get_sorted`, spilled rows first.
    fn get_merged(
        &self,
        family: Family,
        (snapshot, own): (&Snapshot, Family),
        keys: &[&[u8]],
        f: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.files.rocks().check_open()?;
        let (mut rows, mut found, mut missing) =
            (Vec::new(), Vec::with_capacity(keys.len()), Vec::new());
        snapshot
            .rocks()
            .multi_get_sorted(own, keys, snapshot, |n, row| {
                let start = rows.len();
                rows.extend_from_slice(row.unwrap_or_default());
                found.push(row.map(|_| start..rows.len()));
                if row.is_none() {
                    missing.push(n);
                }
            })?;
        let wanted: Vec<&[u8]> = missing.iter().map(|n| keys[*n]).collect();
        let mut next = 0;
        let mut spilled_until = |end: usize, f: &mut dyn FnMut(usize, Option<&[u8]>)| {
            for (n, place) in found.iter().enumerate().take(end).skip(next) {
                if let Some(place) = place {
                    f(n, merged::value(&rows[place.clone()]));
                }
            }
            next = end;
        };
        self.files
            .rocks()
            .multi_get_sorted(family, &wanted, &self.files, |m, row| {
                spilled_until(missing[m], f);
                f(missing[m], row);
            })?;
        spilled_until(keys.len(), f);
        Ok(())
    }

    /// A cursor that stands nowhere yet.
    pub(super) fn cursor(&self, table: Table, bounds: &Bounds) -> Result<Cursor> {
        match table.place {
            Place::Files(family) => {
                let committed = rocks::Cursor::new(&self.files, family, table.kind, bounds)?;
                let Some(rows) = self.spilled() else {
                    return Ok(Cursor::Files(committed));
                };
                let Some(own) = rows.families[table.number] else {
                    return Ok(Cursor::Files(committed));
                };
                let spilled = rocks::Cursor::new(&rows.snapshot, own, table.kind, bounds)?;
                Ok(Cursor::Merged {
                    spilled,
                    committed,
                    place: merged::Place::default(),
                })
            }
            Place::Memory(number) => Ok(Cursor::Memory(
                MemoryCursor::new(self.table(number)?),
                Arc::clone(&self.files),
            )),
        }
    }

    /// About how many rows a table has, spilled ones counted as if all were new.
    pub(crate) fn approximate_rows(&self, table: Table) -> Result<u64> {
        const ROWS: &str = "rocksdb.estimate-num-keys";
        match table.place {
            Place::Files(family) => {
                let spilled = match self.spilled_table(table) {
                    Some((snapshot, own)) => snapshot.rocks().family_property(own, ROWS)?,
                    None => 0,
                };
                Ok(spilled + self.files.rocks().family_property(family, ROWS)?)
            }
            Place::Memory(number) => Ok(self.table(number)?.approximate_rows()),
        }
    }
}

impl SpilledRows {
    /// Whether a table's rows are among them.
    pub(super) fn has(&self, table: Table) -> bool {
        self.families[table.number].is_some()
    }

    /// Hands the rows of a table to `f`, in key order, deletes too.
    pub(crate) fn for_each(
        &self,
        table: Table,
        mut f: impl FnMut(&[u8], Option<&[u8]>) -> Result<()>,
    ) -> Result<()> {
        let Some(family) = self.families[table.number] else {
            return Ok(());
        };
        self.snapshot
            .rocks()
            .for_each_row(family, &self.snapshot, |key, row| {
                f(key, merged::value(row))
            })
    }

    /// About how many bytes a table's rows have in files.
    pub(crate) fn file_bytes(&self, table: Table) -> Result<u64> {
        let Some(family) = self.families[table.number] else {
            return Ok(0);
        };
        self.snapshot
            .rocks()
            .family_property(family, "rocksdb.total-sst-files-size")
    }
}

/// A position in a table of a [`Base`].
pub(crate) enum Cursor {
    Files(rocks::Cursor),
    /// Spilled rows over those of the commit.
    Merged {
        spilled: rocks::Cursor,
        committed: rocks::Cursor,
        place: merged::Place,
    },
    /// With the snapshot whose database says whether the database is still open.
    Memory(MemoryCursor, Arc<Snapshot>),
}

impl Cursor {
    /// Works on the rows, held open for the length of the call.
    #[inline]
    pub(crate) fn with<R>(&mut self, f: impl FnOnce(&mut Rows<'_>) -> R) -> Result<R> {
        match self {
            Self::Files(cursor) => cursor.with(|rows| f(&mut Rows::Files(rows))),
            // The database's own database outside: once it is closed, nothing is read any more.
            Self::Merged {
                spilled,
                committed,
                place,
            } => committed.with(|committed| {
                spilled.with(|spilled| {
                    f(&mut Rows::Merged(Merged {
                        spilled,
                        committed,
                        place,
                    }))
                })
            })?,
            Self::Memory(cursor, files) => {
                files.rocks().check_open()?;
                Ok(f(&mut Rows::Memory(cursor)))
            }
        }
    }
}

/// Rows under a cursor, in key order.
pub(crate) enum Rows<'a> {
    Files(&'a mut RawIterator),
    Merged(Merged<'a>),
    Memory(&'a mut MemoryCursor),
}

macro_rules! on_rows {
    ($self:ident, $rows:ident => $call:expr) => {
        match $self {
            Rows::Files($rows) => $call,
            Rows::Merged($rows) => $call,
            Rows::Memory($rows) => $call,
        }
    };
}

impl Rows<'_> {
    pub(crate) fn seek_to_first(&mut self) {
        match self {
            Self::Files(rows) => rows.seek_to_first(),
            Self::Merged(rows) => rows.seek_to_first(),
            Self::Memory(rows) => rows.seek(&[]),
        }
    }

    /// To the last row within the cursor's bounds; only cursors over files have bounds.
    pub(crate) fn seek_to_last(&mut self) {
        match self {
            Self::Files(rows) => rows.seek_to_last(),
            Self::Merged(rows) => rows.seek_to_last(),
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
