//! The state below a transaction's staged records.

use super::memory_table::MemoryTable;
use super::spilled_row;
use super::spilled_rows::SpilledRows;
use crate::error::Result;
use crate::position::Position;
use crate::rocks::{Family, Snapshot};
use crate::transaction::table::{Place, Table};
use std::sync::Arc;

/// How many keys are looked up at once in a table with spilled rows.
const MERGED_KEYS: usize = 1024;

/// About how many bytes of spilled rows a look-up holds at once. The last row may exceed the limit.
const MERGED_BYTES: usize = 16 << 20;

/// One pinned commit, and a transaction's spilled rows over it, if there are any.
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

    /// A commit with spilled rows over it.
    pub(in crate::transaction) fn with_spilled(
        committed: &Arc<Self>,
        rows: SpilledRows,
    ) -> Arc<Self> {
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

    /// The rows spilled over the commit.
    pub(crate) fn spilled(&self) -> Option<&SpilledRows> {
        self.spilled.as_ref().map(|spilled| &spilled.rows)
    }

    /// The snapshot and family with a table's spilled rows.
    pub(super) fn spilled_table(&self, table: Table) -> Option<(&Arc<Snapshot>, Family)> {
        let rows = self.spilled()?;
        Some((&rows.snapshot, rows.families[table.number]?))
    }

    /// The input position of the commit.
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

    /// A table in memory; fails if the database is closed.
    pub(in crate::transaction) fn table(&self, number: usize) -> Result<&MemoryTable> {
        self.files.rocks().check_open()?;
        Ok(&self.memory[number])
    }

    #[inline]
    pub(in crate::transaction) fn get<R>(
        &self,
        table: Table,
        key: &[u8],
        f: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R> {
        match table.place {
            Place::Files(family) => match self.spilled_table(table) {
                None => self.files.rocks().get(family, key, &self.files, f),
                Some((snapshot, spilled_family)) => {
                    self.files.rocks().check_open()?;
                    let found =
                        snapshot
                            .rocks()
                            .get(spilled_family, key, snapshot, |row| match row {
                                Some(row) => Ok(f(spilled_row::decode(row))),
                                None => Err(f),
                            })?;
                    found.or_else(|f| self.files.rocks().get(family, key, &self.files, f))
                }
            },
            Place::Memory(number) => Ok(f(self.table(number)?.get(key))),
        }
    }

    /// Reads many keys in ascending order and calls `f` for each, in order.
    pub(in crate::transaction) fn get_sorted(
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
                Some((snapshot, spilled_family)) => {
                    self.get_merged(family, (snapshot, spilled_family), keys, &mut f)
                }
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

    /// Does `get_sorted` for a table with spilled rows, which hide committed ones.
    fn get_merged(
        &self,
        family: Family,
        spilled: (&Snapshot, Family),
        keys: &[&[u8]],
        f: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.files.rocks().check_open()?;
        let mut start = 0;
        while start < keys.len() {
            let part = &keys[start..keys.len().min(start + MERGED_KEYS)];
            let count =
                self.get_merged_part(family, spilled, part, &mut |n, row| f(start + n, row))?;
            start += count;
        }
        Ok(())
    }

    /// Reads as many of the first keys as `MERGED_BYTES` allows, at least one. Returns how many.
    fn get_merged_part(
        &self,
        family: Family,
        (snapshot, spilled_family): (&Snapshot, Family),
        keys: &[&[u8]],
        f: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<usize> {
        let (mut rows, mut found, mut missing) =
            (Vec::new(), Vec::with_capacity(keys.len()), Vec::new());
        snapshot
            .rocks()
            .multi_get_sorted(spilled_family, keys, snapshot, |n, row| {
                // The keys after a part that is large enough are read again with the next part.
                if found.len() < n || rows.len() >= MERGED_BYTES {
                    return;
                }
                let start = rows.len();
                rows.extend_from_slice(row.unwrap_or_default());
                found.push(row.map(|_| start..rows.len()));
                if row.is_none() {
                    missing.push(n);
                }
            })?;
        let count = found.len();
        let wanted: Vec<&[u8]> = missing.iter().map(|n| keys[*n]).collect();
        let mut next = 0;
        let mut spilled_until = |end: usize, f: &mut dyn FnMut(usize, Option<&[u8]>)| {
            for (n, place) in found.iter().enumerate().take(end).skip(next) {
                if let Some(place) = place {
                    f(n, spilled_row::decode(&rows[place.clone()]));
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
        spilled_until(count, f);
        Ok(count)
    }

    /// Estimates how many rows a table has. Each spilled put counts as a new row, and each spilled
    /// delete as a removed row.
    pub(crate) fn approximate_rows(&self, table: Table) -> Result<u64> {
        const ROWS: &str = "rocksdb.estimate-num-keys";
        match table.place {
            Place::Files(family) => {
                let added = self.spilled().map_or(0, |rows| rows.added[table.number]);
                let rows = self.files.rocks().family_property(family, ROWS)?;
                Ok(rows.saturating_add_signed(added))
            }
            Place::Memory(number) => Ok(self.table(number)?.approximate_rows()),
        }
    }
}
