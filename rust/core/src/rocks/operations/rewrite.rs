//! Rewrites files a few at a time, to free the space of rows that the compaction filter finds
//! expired.

use crate::error::Result;
use crate::rocks::failure::failure;
use crate::rocks::family::Family;
use crate::rocks::rocks_db::RocksDb;
use rust_rocksdb::{ColumnFamilyMetaDataOptions, CompactionOptions, ErrorKind};

/// A family with fewer bytes is rewritten only if it has [`MIN_FILES`] files: it would fit into a
/// memtable, so a rewrite frees little.
const MIN_BYTES: u64 = 4 << 20;

/// A family with this many files is rewritten even if it has fewer than [`MIN_BYTES`]. Rows that
/// are written in key order make files that never overlap. RocksDB moves such files from level to
/// level without merging them, even if they are small.
const MIN_FILES: usize = 64;

/// A family of at most this many bytes is rewritten as one set. In a larger family, only the last
/// level is rewritten, [`FILE`] bytes at a time. Nearly all rows that are old enough to expire are
/// there, and other files can be compacted at the same time.
const AT_ONCE: u64 = 64 << 20;

/// The size at which compactions of a family cut their files (`options/family_options.rs`).
const FILE: u64 = 32 << 20;

/// Files that can be rewritten together.
pub struct FileSet {
    names: Vec<String>,
    level: i32,
}

/// How many rows a rewrite read and wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rewritten {
    /// Rows of the old files.
    pub read: u64,
    /// Rows of the new files.
    pub written: u64,
}

impl RocksDb {
    /// Returns the current files of a family that are worth a rewrite, in sets to rewrite together.
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
        let Some(last) = levels
            .last()
            .filter(|_| bytes >= MIN_BYTES || count >= MIN_FILES)
        else {
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
        // The files are in key order.
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

    /// Rewrites files on this thread; `None` if a compaction has rewritten or is rewriting them.
    ///
    /// # Errors
    /// `StoreClosed` after [`RocksDb::stop_background_work`].
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

    /// Stops running compactions at their next row and prevents new ones. Called before a close.
    pub fn stop_background_work(&self) {
        if let Ok(guard) = self.guard()
            && let Ok(db) = self.opened(&guard)
        {
            db.cancel_all_background_work(false);
        }
    }
}
