//! The commit of a spilled transaction, and what becomes of one that was interrupted (KIP-844).
//!
//! Its rows are written into sorted files, family by family, and the database's own memtables too,
//! so that every earlier commit is in files. Then the commit file is put into place: *that* is the
//! commit. From there on it only goes forward: the files are taken in, one write brings offsets and
//! positions, and only then new views see any of it. Whoever finds a commit file (a rollback,
//! `recover`, an open) does those steps again from the first; doing one twice changes nothing.

use super::commit_file::{self, CommitFile, FamilyFiles};
use super::open_transaction::Open;
use super::{Database, metadata};
use crate::error::{Error, Result};
use crate::failpoint::Failpoint;
use crate::offset::{Offset, TopicPartition};
use crate::position::Position;
use crate::rocks::{Environment, Family, RocksDb, SortedFiles};
use crate::table::FamilySpec;
use crate::transaction::{Batch, MemoryTable, Place, SpilledRows, Spiller, StoreState};
use std::path::Path;
use std::sync::Arc;

/// A family's files at a commit: at most so many, or as many as have `FILE_BYTES`. Files of a
/// commit often lie in level 0, where many would hold up writes; one file of everything would need
/// its filter in memory.
const FILES: u64 = 16;
const FILE_BYTES: u64 = 64 << 20;

/// A commit under way, or one that was interrupted.
pub(super) struct Unfinished {
    id: u64,
    pub(super) why: String,
    pub(super) next: Next,
}

/// What new views see after a commit, besides what is in files.
#[derive(Clone)]
pub(super) struct Next {
    pub(super) memory: Vec<MemoryTable>,
    pub(super) states: Vec<StoreState>,
    pub(super) position: Position,
}

impl Database {
    /// Commits spilled rows and, with them, a batch. Until the end `open` says that it is under
    /// way.
    pub(super) fn commit_spilled(
        &self,
        open: &mut Open,
        rows: &SpilledRows,
        batch: Batch,
        next: Next,
    ) -> Result<()> {
        let id = self.rocks.last_write() + 1;
        *open = Open::Unfinished(Box::new(Unfinished {
            id,
            why: "nobody was told why".to_owned(),
            next,
        }));
        let written = self.write_commit(id, rows, batch);
        written.and_then(|()| self.finish(open)).map_err(|error| {
            if let Open::Unfinished(unfinished) = open {
                unfinished.why = error.to_string();
            }
            let words = format!(
                "a commit was interrupted ({error}); rollback(), recover() or the next open of \
                 the database finishes it if its commit file had been written, and else undoes it: \
                 the committed offsets tell"
            );
            Error::new(error.kind(), words).path(self.path())
        })
    }

    fn write_commit(&self, id: u64, rows: &SpilledRows, mut batch: Batch) -> Result<()> {
        let Some(spiller) = &self.spiller else {
            return Ok(());
        };
        let families = self.write_files(spiller, rows)?;
        self.rocks.flush(true)?;
        Failpoint::BeforeCommitFile.reached()?;
        batch.push(
            self.metadata.id,
            metadata::SPILLED_KEY,
            Some(&id.to_be_bytes()),
        );
        CommitFile::new(id, families, batch.finish().to_vec())
            .write(self.path(), self.options.environment.as_ref())?;
        self.rocks.note_commit_file(id);
        Failpoint::AfterCommitFile.reached()
    }

    fn write_files(&self, spiller: &Spiller, rows: &SpilledRows) -> Result<Vec<FamilyFiles>> {
        let folder = commit_file::make_folder(self.path(), self.options.environment.as_ref())?;
        let mut families = Vec::new();
        for table in self
            .tables
            .iter()
            .filter(|table| matches!(table.place, Place::Files(_)))
        {
            let Some(spec) = spiller.family(*table) else {
                continue;
            };
            let format = self.rocks.file_format(spec)?;
            let target = (rows.file_bytes(*table)? / FILES).max(FILE_BYTES);
            let mut files = SortedFiles::new(&format, &folder, table.number.to_string(), target);
            rows.for_each(*table, |key, value| files.push(key, value))?;
            families.push(FamilyFiles::of(spec.name(), &files.finish()?)?);
        }
        Ok(families)
    }

    /// Ends a commit that was interrupted: forward if there is a commit file, else back.
    pub(super) fn finish(&self, open: &mut Open) -> Result<()> {
        let Open::Unfinished(unfinished) = open else {
            return Ok(());
        };
        let environment = self.options.environment.as_ref();
        // A file of an earlier commit, which could not be removed, says nothing of this one.
        if let Some(file) =
            CommitFile::read(self.path())?.filter(|file| file.header.id == unfinished.id)
        {
            roll_forward(&self.rocks, self.metadata, &file)?;
            let Next {
                memory,
                states,
                position,
            } = unfinished.next.clone();
            self.publish(memory, states.clone(), position, 0)?;
            self.views.lock().flushed(states);
            Failpoint::BeforeCommitFileRemoval.reached()?;
        }
        commit_file::remove(self.path(), environment)?;
        *open = Open::Fresh;
        Ok(())
    }

    /// Drops the open transaction, ends a commit that was interrupted (forward if its commit file
    /// was written, else back), and returns the offsets that the state then stands at. `open` has
    /// done it already.
    ///
    /// # Errors
    /// `Io` or `StoreCorrupted` where the interrupted commit cannot be ended; the database then
    /// only takes another attempt.
    pub fn recover(&self) -> Result<Vec<(TopicPartition, Offset)>> {
        self.rollback()?;
        self.committed_offsets()
    }
}

/// Takes a commit's files in, then writes its batch; nothing if that was done.
fn roll_forward(rocks: &Arc<RocksDb>, metadata: Family, file: &CommitFile) -> Result<()> {
    let done = |stored: Option<&[u8]>| stored == Some(&file.header.id.to_be_bytes());
    if rocks.get(metadata, metadata::SPILLED_KEY, &*rocks.snapshot()?, done)? {
        // Without a log it may lie in memory still.
        return rocks.flush(true);
    }
    for family in &file.header.families {
        let Some(spec) = FamilySpec::parse(&family.family) else {
            continue;
        };
        rocks.ingest(rocks.family(&spec)?, &family.paths(rocks.path())?, true)?;
        Failpoint::BetweenIngests.reached()?;
    }
    rocks.write(&mut Batch::from_finished(file.batch.clone()))?;
    rocks.flush(true)
}

/// Ends what a crash interrupted, before anything else is done to the database.
pub(super) fn recover(
    rocks: &Arc<RocksDb>,
    metadata: Family,
    file: Option<&CommitFile>,
    environment: Option<&Environment>,
) -> Result<()> {
    let path: &Path = rocks.path();
    if let Some(file) = file {
        log::info!(
            "{}: commit {} was interrupted behind its commit file, and is finished now",
            path.display(),
            file.header.id
        );
        roll_forward(rocks, metadata, file)?;
    }
    commit_file::remove(path, environment)
}
