//! The commit of a spilled transaction, and its recovery after an interruption (KIP-844).
//!
//! 1. The rows are written to sorted files, family by family, and the database's memtables are
//!    flushed, so that every earlier commit is in files.
//! 2. The commit file is put into place: from then on the transaction is committed.
//! 3. The sorted files are ingested, and one write adds offsets and positions. Only then can new
//!    views read the transaction's rows.
//!
//! If the commit file exists, a rollback, `recover`, the commit of a private transaction, a close
//! or an open repeats step 3 from its beginning. Parts that are done already have no effect when
//! they are repeated.

use super::commit_file::{self, CommitFile, FamilyFiles};
use crate::database::database::Database;
use crate::database::rows::keys;
use crate::database::transactions::writer::{SpilledCommit, Writer};
use crate::error::{Error, ErrorKind, Result};
use crate::failpoint::Failpoint;
use crate::rocks::{Environment, Family, RocksDb, SortedFiles};
use crate::table::FamilySpec;
use crate::transaction::{Batch, Place, SpilledRows, Spiller};
use std::path::Path;
use std::sync::Arc;

/// A family of a commit has about this many files at most. Each but the last has at least
/// [`FILE_BYTES`]. The files are often in level 0, where many files would stall writes. A single
/// file of all rows would need its whole filter in memory.
const FILES: u64 = 16;
const FILE_BYTES: u64 = 64 << 20;

impl Database {
    /// Commits spilled rows together with a batch.
    pub(super) fn commit_spilled(
        &self,
        writer: &mut Writer,
        rows: &SpilledRows,
        batch: Batch,
        commit: SpilledCommit,
    ) -> Result<()> {
        let id = commit.id;
        writer.start_commit(commit, self.path())?;
        let written = self.write_commit(id, rows, batch);
        written.and_then(|()| self.finish(writer)).map_err(|error| {
            writer.interrupt_commit(&error);
            let words = format!(
                "a commit was interrupted ({error}); rollback(), recover() or the next open of \
                 the database finishes it if its commit file had been written, and undoes it \
                 otherwise; the committed offsets show which"
            );
            Error::new(error.kind(), words).path(self.path())
        })
    }

    fn write_commit(&self, id: u64, rows: &SpilledRows, mut batch: Batch) -> Result<()> {
        let Some(spiller) = &self.spiller else {
            let text = "rows were spilled by a database that cannot spill";
            return Err(Error::new(ErrorKind::InvalidState, text).path(self.path()));
        };
        let families = self.write_files(spiller, rows)?;
        self.rocks.flush(true)?;
        Failpoint::BeforeCommitFile.pass()?;
        batch.push(
            self.families.metadata.id,
            keys::SPILLED_KEY,
            Some(&id.to_be_bytes()),
        );
        CommitFile::new(id, families, batch.finish().to_vec())
            .write(self.path(), self.options.environment.as_ref())?;
        self.rocks.note_commit_file(id);
        Failpoint::AfterCommitFile.pass()
    }

    fn write_files(&self, spiller: &Spiller, rows: &SpilledRows) -> Result<Vec<FamilyFiles>> {
        let folder = commit_file::make_folder(self.path(), self.options.environment.as_ref())?;
        let mut families = Vec::new();
        for table in self
            .stores
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

    /// Ends a commit that was interrupted: finishes it if there is a commit file, and undoes it
    /// otherwise.
    pub(in crate::database) fn finish(&self, writer: &mut Writer) -> Result<()> {
        let Some(commit) = writer.spilled_commit() else {
            return Ok(());
        };
        if let Some(file) = self.commit_file(commit)? {
            let environment = self.options.environment.as_ref();
            roll_forward(&self.rocks, self.families.metadata, &file, environment)?;
            let next = commit.next.clone();
            let states = next.states.clone();
            self.publish(next, 0)?;
            if commit.moves_offsets {
                self.stores.note_offsets();
            }
            self.views.lock().flushed(states);
            Failpoint::BeforeCommitFileRemoval.pass()?;
        }
        commit_file::remove(self.path(), self.options.environment.as_ref())?;
        writer.finish_commit();
        Ok(())
    }

    /// Removes the files of a commit that was interrupted before its commit file was written. The
    /// commit stays interrupted until [`Database::finish`].
    pub(in crate::database) fn free_unwritten(&self, writer: &Writer) -> Result<()> {
        match writer.spilled_commit() {
            Some(commit) if self.commit_file(commit)?.is_none() => {
                commit_file::remove(self.path(), self.options.environment.as_ref())
            }
            _ => Ok(()),
        }
    }

    /// Reads the commit file of a commit, if it was written.
    fn commit_file(&self, commit: &SpilledCommit) -> Result<Option<CommitFile>> {
        // A file with another number is from an earlier commit, which could not remove it.
        Ok(CommitFile::read(self.path())?.filter(|file| file.header.id == commit.id))
    }
}

/// Ingests a commit's files, then writes its batch, unless that was done already.
fn roll_forward(
    rocks: &Arc<RocksDb>,
    metadata: Family,
    file: &CommitFile,
    environment: Option<&Environment>,
) -> Result<()> {
    let done = |stored: Option<&[u8]>| stored == Some(&file.header.id.to_be_bytes());
    if rocks.get(metadata, keys::SPILLED_KEY, &*rocks.snapshot()?, done)? {
        // If the write returned an error, its number is not known yet. If the next commit used the
        // same number, its files would count as ingested already.
        rocks.find_last_write()?;
        // Without a log the batch may still be in memory.
        return rocks.flush(true);
    }
    // After the first ingest, a loss of power must not remove the commit file.
    commit_file::sync_names(rocks.path(), environment)?;
    for family in &file.header.families {
        let spec = FamilySpec::parse(&family.family).ok_or_else(|| {
            let text = format!("a commit file has the unknown family {:?}", family.family);
            Error::new(ErrorKind::StoreCorrupted, text).path(rocks.path())
        })?;
        rocks.ingest(rocks.family(&spec)?, &family.paths(rocks.path())?, true)?;
        Failpoint::BetweenIngests.pass()?;
    }
    rocks.write(&mut Batch::from_finished(file.batch.clone()))?;
    rocks.flush(true)
}

/// Ends a commit that a crash interrupted, before any other write to the database.
pub(in crate::database) fn recover(
    rocks: &Arc<RocksDb>,
    metadata: Family,
    file: Option<&CommitFile>,
    environment: Option<&Environment>,
) -> Result<()> {
    let path: &Path = rocks.path();
    if let Some(file) = file {
        log::info!(
            "{}: commit {} was interrupted after its commit file was written, and is finished now",
            path.display(),
            file.header.id
        );
        roll_forward(rocks, metadata, file, environment)?;
    }
    commit_file::remove(path, environment)
}
