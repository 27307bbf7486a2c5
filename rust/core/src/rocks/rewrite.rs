//! Files rewritten a few at a time, so that rows which the compaction filter finds expired give
//! their space back.

use super::failure::failure;
use super::family::Family;
use super::rocks_db::RocksDb;
use crate::error::Result;
use rust_rocksdb::{ColumnFamilyMetaDataOptions, CompactionOptions, ErrorKind};

/// A family of fewer bytes would fit into a memtable: nothing to be gained …
const LEAST: u64 = 4 << 20;

/// … but that of so many files. Rows that come in the order of their keys leave files that never
/// overlap, and RocksDB moves such files from level to level as they are, however small.
const MANY: usize = 64;

/// A family of at most so many bytes is rewritten at once. Of a larger one only the files of the
/// last level are, a file's size at a time: nearly all that is old enough to expire lies there, and
/// compactions of other files go on meanwhile.
const AT_ONCE: u64 = 64 << 20;

/// As the family's own compactions cut their files (`options.rs`).
const FILE: u64 = 32 << 20;

/// Files that can be rewritten together.
pub struct FileSet {
    names: Vec<String>,
    level: i32,
}

/// How many rows were read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rewritten {
    /// Rows of the files as they were.
    pub read: u64,
    /// Rows of the files as they are.
    pub written: u64,
}

impl RocksDb {
    /// The files of a family that are worth a rewrite, as they are now.
    pub fn file_sets(&self, family: Family) -> Result<Vec<FileSet>> {
        let guard = self.guard()?;
        let levels = self
            .opened(&guard)?
            .get_column_family_metadata_cf_with_options(
                &family.handle,
                &ColumnFamilyMetaDataOptions::default(),
            );
        let bytes: u64 = levels.iter().map(rust_rocksdb::LevelMetaData::size).sum();
        let count = levels
            .iter()
            .map(|level| level.sst_files().count())
            .sum::<usize>();
        let Some(last) = levels.last().filter(|_| bytes >= LEAST || count >= MANY) else {
            return Ok(Vec::new());
        };
        let level = last.level();
        if bytes <= AT_ONCE {
            let names = levels
                .iter()
                .flat_map(|level| level.sst_files())
                .map(|file| file.relative_filename())
                .collect();
            return Ok(vec![FileSet { names, level }]);
        }
        // In the order of their keys.
        let mut sets: Vec<FileSet> = Vec::new();
        let mut room = 0;
        for file in last.sst_files() {
            let (name, bytes) = (file.relative_filename(), file.size());
            match sets.last_mut().filter(|_| bytes <= room) {
                Some(set) => {
                    set.names.push(name);
                    room -= bytes;
                }
                None => {
                    sets.push(FileSet {
                        names: vec![name],
                        level,
                    });
                    room = FILE.saturating_sub(bytes);
                }
            }
        }
        Ok(sets)
    }

    /// Rewrites files on this thread; nothing if a compaction is about to do so or has done it.
    ///
    /// # Errors
    /// `StoreClosed` once [`RocksDb::stop_background_work`] was called.
    pub fn rewrite(&self, family: Family, files: &FileSet) -> Result<Option<Rewritten>> {
        let guard = self.guard()?;
        let mut options = CompactionOptions::default();
        options.set_output_file_size_limit(FILE);
        match self.opened(&guard)?.compact_files_cf(
            &family.handle,
            &options,
            &files.names,
            files.level,
        ) {
            Ok(done) => Ok(done.job_info.map(|job| {
                let stats = job.info().stats();
                Rewritten {
                    read: stats.num_input_records(),
                    written: stats.num_output_records(),
                }
            })),
            Err(e) if matches!(e.kind(), ErrorKind::Aborted | ErrorKind::InvalidArgument) => {
                Ok(None)
            }
            Err(e)
                if matches!(
                    e.kind(),
                    ErrorKind::ShutdownInProgress | ErrorKind::Incomplete
                ) =>
            {
                Err(self.closed())
            }
            Err(e) => Err(failure("rewriting files with expired rows", self.path(), e)),
        }
    }

    /// Ends compactions at their next row and begins no more; before a close.
    pub fn stop_background_work(&self) {
        if let Ok(guard) = self.guard()
            && let Ok(db) = self.opened(&guard)
        {
            db.cancel_all_background_work(false);
        }
    }
}
