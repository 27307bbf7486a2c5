//! Where a database's transactions spill, and how a table's staged records become sorted files.

use super::hidden_keys::HiddenKeys;
use crate::error::Result;
use crate::rocks::{Family, RocksDb, RocksOptions, SortedFiles, io_failure};
use crate::sync::Mutex;
use crate::table::FamilySpec;
use crate::transaction::staged::latest_rows::LatestRows;
use crate::transaction::staged::table_buffer::TableBuffer;
use crate::transaction::stored::spilled_row;
use crate::transaction::table::Table;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Where a database's transactions spill, and when.
pub(crate) struct Spiller {
    directory: PathBuf,
    options: RocksOptions,
    /// Memory of a transaction at which it spills, in bytes.
    limit: usize,
    /// By table number.
    targets: Vec<Option<SpillTarget>>,
    /// Temporary databases that a transaction, scan or reader may still hold.
    open: Mutex<Vec<Weak<RocksDb>>>,
}

/// Where a table's rows are spilled.
#[derive(Clone)]
pub(crate) struct SpillTarget {
    pub(crate) family: FamilySpec,
    /// For a table of versions: where each key's newest version is also written.
    pub(crate) latest: Option<FamilySpec>,
}

impl Spiller {
    pub(crate) fn new(
        directory: PathBuf,
        options: RocksOptions,
        limit: usize,
        targets: Vec<Option<SpillTarget>>,
    ) -> Self {
        Self {
            directory,
            options: RocksOptions {
                temporary: true,
                ..options
            },
            limit,
            targets,
            open: Mutex::default(),
        }
    }

    /// Deletes the rows that transactions had spilled before a crash. No transaction of the
    /// database may be open.
    pub(crate) fn remove_orphans(directory: &Path) -> Result<()> {
        match std::fs::remove_dir_all(directory) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(io_failure("deleting uncommitted rows", directory, &e))
            }
            _ => Ok(()),
        }
    }

    /// Closes the temporary databases of all transactions, scans and readers.
    pub(crate) fn close(&self) {
        for rocks in self
            .open
            .lock()
            .drain(..)
            .filter_map(|rocks| rocks.upgrade())
        {
            rocks.close();
        }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Memory of a transaction at which it spills, in bytes.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Where each table's rows are spilled, by table number.
    pub(super) fn targets(&self) -> &[Option<SpillTarget>] {
        &self.targets
    }

    /// The family of a table's rows.
    pub(crate) fn family(&self, table: Table) -> Option<&FamilySpec> {
        self.targets[table.number]
            .as_ref()
            .map(|target| &target.family)
    }

    /// Opens a new temporary database.
    pub(super) fn rocks(&self) -> Result<Arc<RocksDb>> {
        // Numbers are not reused: after the database is closed and opened again, a reader may still
        // hold a temporary database.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let directory = self
            .directory
            .join(NEXT.fetch_add(1, Ordering::Relaxed).to_string());
        std::fs::create_dir_all(&directory)
            .map_err(|e| io_failure("creating a folder of uncommitted rows", &directory, &e))?;
        let families: Vec<FamilySpec> = self
            .targets
            .iter()
            .flatten()
            .map(|target| target.family.clone())
            .collect();
        let rocks = RocksDb::open(&directory, &families, &self.options)?;
        let mut open = self.open.lock();
        open.retain(|rocks| rocks.strong_count() > 0);
        open.push(Arc::downgrade(&rocks));
        Ok(rocks)
    }

    pub(super) fn families(&self, rocks: &RocksDb) -> Result<Arc<[Option<Family>]>> {
        self.targets
            .iter()
            .map(|target| {
                target
                    .as_ref()
                    .map(|target| rocks.family(&target.family))
                    .transpose()
            })
            .collect()
    }

    /// Adds the staged records of a table to a temporary database.
    pub(super) fn spill_table(
        &self,
        rocks: &Arc<RocksDb>,
        buffer: &mut TableBuffer,
        target: &SpillTarget,
        hidden: &mut HiddenKeys,
    ) -> Result<()> {
        let directory = rocks.path();
        let format = rocks.file_format(&target.family)?;
        let mut files = SortedFiles::new(&format, directory, "spilled".to_owned(), u64::MAX);
        let latest_format = target
            .latest
            .as_ref()
            .map(|latest| rocks.file_format(latest))
            .transpose()?;
        let mut latest = latest_format
            .as_ref()
            .map(|format| SortedFiles::new(format, directory, "latest".to_owned(), u64::MAX));
        let (mut row, mut rows) = (Vec::new(), LatestRows::default());
        buffer.in_order(|staged, _| {
            hidden.before(Some(staged.key), &mut |key| {
                files.push(key, Some(spilled_row::DELETED))
            })?;
            files.push(
                staged.key,
                Some(spilled_row::encode(staged.value, &mut row)),
            )?;
            let Some(latest) = &mut latest else {
                return Ok(());
            };
            let Some((key, value)) = rows.of(staged) else {
                return Ok(());
            };
            latest.push(
                key,
                Some(spilled_row::encode(Some(&value.concat()), &mut row)),
            )
        })?;
        hidden.before(None, &mut |key| files.push(key, Some(spilled_row::DELETED)))?;
        rocks.ingest(rocks.family(&target.family)?, &files.finish()?, false)?;
        if let (Some(latest), Some(family)) = (latest, &target.latest) {
            rocks.ingest(rocks.family(family)?, &latest.finish()?, false)?;
        }
        Ok(())
    }
}
