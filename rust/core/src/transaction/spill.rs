//! Spilling: what a transaction has staged goes into sorted files when it outgrows its memory
//! (KIP-844's secondary store).
//!
//! A spill is a commit into a database of the transaction's own, in `+uncommitted/N` beside the
//! database's files: the same rows go there that a commit would write, each value behind a byte
//! that tells a put from a delete. From then on the transaction stands on the last commit with
//! these rows over it, and begins with empty buffers; stores see no difference. The directory is
//! deleted with the last scan or reader that holds it, and what a crash leaves of it by the next
//! open.

use super::base::{Cursor, SpilledRows};
use super::cleared::Interval;
use super::merged::{DELETED, marked};
use super::table::TableBuffer;
use super::{Base, LatestRows, Table, Transaction};
use crate::error::{Error, Result};
use crate::failpoint::Failpoint;
use crate::rocks::{Family, RocksDb, RocksOptions, SortedFiles, io_failure};
use crate::sync::Mutex;
use crate::table::{Bounds, FamilySpec};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Hidden keys that are read at once.
const HIDDEN_KEYS: usize = 1024;

/// Where a database's transactions spill, and when.
pub(crate) struct Spiller {
    directory: PathBuf,
    options: RocksOptions,
    /// Memory of a transaction at which it spills, in bytes.
    limit: usize,
    /// By a table's number.
    targets: Vec<Option<Target>>,
    /// Databases that somebody may still hold.
    open: Mutex<Vec<Weak<RocksDb>>>,
}

/// Where a table's rows go.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) family: FamilySpec,
    /// Of a table of versions: where the newest of each key goes, too.
    pub(crate) latest: Option<FamilySpec>,
}

impl Spiller {
    pub(crate) fn new(
        directory: PathBuf,
        options: RocksOptions,
        limit: usize,
        targets: Vec<Option<Target>>,
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

    /// Deletes what transactions have left that a crash ended. Nobody may have the database open.
    pub(crate) fn remove_orphans(directory: &Path) -> Result<()> {
        match std::fs::remove_dir_all(directory) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(io_failure("deleting uncommitted rows", directory, &e))
            }
            _ => Ok(()),
        }
    }

    /// Closes the databases of all transactions, scans and readers.
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

    /// The family that a table's rows are of.
    pub(crate) fn family(&self, table: Table) -> Option<&FamilySpec> {
        self.targets[table.number]
            .as_ref()
            .map(|target| &target.family)
    }

    fn rocks(&self) -> Result<Arc<RocksDb>> {
        // Numbers are not used twice: a reader may hold the database of a database that was closed
        // and opened again.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let directory = self
            .directory
            .join(NEXT.fetch_add(1, Ordering::Relaxed).to_string());
        std::fs::create_dir_all(&directory)
            .map_err(|e| io_failure("making room for uncommitted rows", &directory, &e))?;
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

    fn families(&self, rocks: &RocksDb) -> Result<Arc<[Option<Family>]>> {
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

    fn spill_table(
        &self,
        rocks: &Arc<RocksDb>,
        buffer: &TableBuffer,
        target: &Target,
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
            hidden.before(Some(staged.key), &mut |key| files.push(key, Some(DELETED)))?;
            files.push(staged.key, Some(marked(staged.value, &mut row)))?;
            let Some(latest) = &mut latest else {
                return Ok(());
            };
            let Some((key, value)) = rows.of(staged) else {
                return Ok(());
            };
            latest.push(key, Some(marked(Some(&value.concat()), &mut row)))
        })?;
        hidden.before(None, &mut |key| files.push(key, Some(DELETED)))?;
        rocks.ingest(rocks.family(&target.family)?, &files.finish()?, false)?;
        if let (Some(latest), Some(family)) = (latest, &target.latest) {
            rocks.ingest(rocks.family(family)?, &latest.finish()?, false)?;
        }
        Ok(())
    }
}

/// Keys of the stored rows that range deletes hide, in order: a spilled range delete is one of each
/// of its rows.
struct HiddenKeys {
    rows: Option<Cursor>,
    intervals: VecDeque<Interval>,
    keys: VecDeque<Vec<u8>>,
}

impl HiddenKeys {
    fn new(base: &Base, table: Table, buffer: &TableBuffer) -> Result<Self> {
        let intervals: VecDeque<Interval> = buffer.cleared().iter().cloned().collect();
        let rows = if intervals.is_empty() {
            None
        } else {
            Some(base.cursor(table, &Bounds::default())?)
        };
        Ok(Self {
            rows,
            intervals,
            keys: VecDeque::new(),
        })
    }

    /// Hands on those before a key (`None`: all that are left), and passes the key itself over,
    /// which has a record of its own.
    fn before(&mut self, end: Option<&[u8]>, f: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        loop {
            if self.keys.is_empty() {
                self.fill()?;
            }
            match self.keys.front() {
                Some(key) if end.is_none_or(|end| key.as_slice() < end) => f(key)?,
                Some(key) if end == Some(key) => {}
                _ => return Ok(()),
            }
            self.keys.pop_front();
        }
    }

    fn fill(&mut self) -> Result<()> {
        let Self {
            rows: Some(rows),
            intervals,
            keys,
        } = self
        else {
            return Ok(());
        };
        while keys.is_empty()
            && let Some(interval) = intervals.front_mut()
        {
            rows.with(|rows| {
                rows.seek(&interval.from);
                while let Some(key) = rows.key().filter(|key| *key < interval.to.as_slice())
                    && keys.len() < HIDDEN_KEYS
                {
                    keys.push_back(key.to_vec());
                    rows.next();
                }
            })?;
            match keys.back() {
                Some(last) => interval.from = [last, &[0][..]].concat(),
                None => drop(intervals.pop_front()),
            }
        }
        Ok(())
    }
}

impl Transaction {
    /// Spills if what is staged has outgrown its memory. To be called between the rows of a batch,
    /// where no read of what is staged or stored is still to be relied on.
    ///
    /// # Errors
    /// `Io` for a full disk, or whatever the disk refuses; nothing is lost then, and nothing
    /// changed.
    #[inline]
    pub(crate) fn make_room(&mut self) -> Result<()> {
        if self.staged_bytes < self.measure_at {
            Ok(())
        } else {
            self.measure()
        }
    }

    /// Whether the next record may make it spill.
    #[inline]
    pub(crate) fn may_spill(&self) -> bool {
        self.staged_bytes >= self.measure_at && self.spiller.is_some()
    }

    #[cold]
    fn measure(&mut self) -> Result<()> {
        let Some(spiller) = self.spiller.clone() else {
            self.measure_at = u64::MAX;
            return Ok(());
        };
        let limit = self.limit.unwrap_or(usize::MAX).min(spiller.limit);
        let bytes = self
            .spillable(&spiller)
            .map(|(_, buffer, _)| buffer.bytes())
            .sum::<usize>();
        let left = if bytes >= limit {
            self.spill()?;
            limit
        } else {
            limit - bytes
        };
        // Memory is more than what was staged: looking again half-way comes near the limit in few
        // looks.
        self.measure_at = self.staged_bytes + (left / 2).max(limit / 256) as u64;
        Ok(())
    }

    fn spillable<'a>(
        &'a mut self,
        spiller: &'a Spiller,
    ) -> impl Iterator<Item = (Table, &'a mut TableBuffer, &'a Target)> {
        let buffers = self
            .tables
            .iter()
            .zip(&mut self.buffers)
            .zip(&spiller.targets);
        buffers.filter_map(|((table, buffer), target)| Some((*table, buffer, target.as_ref()?)))
    }

    /// Moves what is staged into sorted files, as the transaction does by itself when it outgrows
    /// its memory; nothing in a database that never spills. After an error it is still staged.
    ///
    /// # Errors
    /// `Io` for a full disk, or whatever the disk refuses.
    pub fn spill(&mut self) -> Result<()> {
        let Some(spiller) = self.spiller.clone() else {
            return Ok(());
        };
        if self
            .spillable(&spiller)
            .all(|(_, buffer, _)| buffer.is_empty())
        {
            return Ok(());
        }
        self.base.files().rocks().check_open()?;
        self.peak = self.peak.max(self.uncommitted_bytes());
        let rows = self
            .spill_rows(&spiller)
            .map_err(|error| spill_failure(error, &spiller.directory))?;
        self.base = Base::with_spilled(self.base.committed(), rows);
        self.seekers.fill_with(|| [None, None]);
        self.spillable(&spiller)
            .for_each(|(_, buffer, _)| buffer.give_up());
        Failpoint::AfterSpill.reached()
    }

    fn spill_rows(&mut self, spiller: &Spiller) -> Result<SpilledRows> {
        Failpoint::BeforeSpill.reached()?;
        let (rocks, families) = match self.base.spilled() {
            Some(rows) => (
                Arc::clone(rows.snapshot.rocks()),
                Arc::clone(&rows.families),
            ),
            None => {
                let rocks = spiller.rocks()?;
                let families = spiller.families(&rocks)?;
                (rocks, families)
            }
        };
        let base = Arc::clone(&self.base);
        self.spillable(spiller)
            .try_for_each(|(table, buffer, target)| {
                let mut hidden = HiddenKeys::new(&base, table, buffer)?;
                spiller.spill_table(&rocks, buffer, target, &mut hidden)
            })?;
        Ok(SpilledRows {
            snapshot: rocks.snapshot()?,
            families,
        })
    }

    /// Spills at less memory than the database's transactions do, where many share what there is.
    pub fn limit_memory(&mut self, bytes: usize) {
        self.limit = Some(bytes);
        self.measure_at = 0;
    }

    /// Whether a part of it is in files.
    pub fn has_spilled(&self) -> bool {
        self.base.spilled().is_some()
    }

    /// The most memory that it has held before a spill, in bytes.
    pub fn peak_bytes(&self) -> usize {
        self.peak.max(self.uncommitted_bytes())
    }
}

fn spill_failure(error: Error, directory: &Path) -> Error {
    let words =
        format!("the transaction outgrew its memory, and moving it to files failed: {error}");
    Error::new(error.kind(), words).path(directory)
}
