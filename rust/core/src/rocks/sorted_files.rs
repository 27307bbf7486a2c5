//! Sorted files: rows that come in key order, written as files that a database takes in as they
//! are.
//!
//! The way for large transactions: a quarter of what the same rows cost through a memtable
//! (`layout.md` section 1), and the memory of one block.

use super::failure::failure;
use super::family::Family;
use super::options::{family_options, rocks_options};
use super::rocks_db::RocksDb;
use super::snapshot::Snapshot;
use crate::error::{Error, ErrorKind, Result};
use crate::table::FamilySpec;
use rust_rocksdb::{IngestExternalFileOptions, Options, ReadOptions, SstFileWriter};
use std::path::{Path, PathBuf};

/// What a scan of a whole family reads ahead, in bytes.
const READ_AHEAD: usize = 1 << 20;

/// How a family's rows are encoded in files.
pub(crate) struct FileFormat(Options);

/// Writes rows of one family, in ascending key order, each key once.
pub(crate) struct SortedFiles<'a> {
    writer: SstFileWriter<'a>,
    directory: &'a Path,
    name: String,
    /// A file that has so many bytes is followed by another one.
    target: u64,
    written: u64,
    is_open: bool,
    files: Vec<PathBuf>,
}

impl<'a> SortedFiles<'a> {
    /// A writer of files named `name-0.sst` and so on.
    pub(crate) fn new(
        format: &'a FileFormat,
        directory: &'a Path,
        name: String,
        target: u64,
    ) -> Self {
        Self {
            writer: SstFileWriter::create(&format.0),
            directory,
            name,
            target,
            written: 0,
            is_open: false,
            files: Vec::new(),
        }
    }

    /// Adds a row or (for `None`) the delete of one.
    pub(crate) fn push(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        if self.written >= self.target {
            self.end()?;
        }
        if !self.is_open {
            let path = self
                .directory
                .join(format!("{}-{}.sst", self.name, self.files.len()));
            self.writer
                .open(&path)
                .map_err(|e| failure("making a sorted file", &path, e))?;
            self.files.push(path);
            self.is_open = true;
        }
        self.written += (key.len() + value.map_or(0, <[u8]>::len)) as u64;
        let pushed = match value {
            Some(value) => self.writer.put(key, value),
            None => self.writer.delete(key),
        };
        pushed.map_err(|e| failure("writing a sorted file", self.directory, e))
    }

    fn end(&mut self) -> Result<()> {
        if self.is_open {
            self.writer
                .finish()
                .map_err(|e| failure("writing a sorted file", self.directory, e))?;
            self.is_open = false;
            self.written = 0;
        }
        Ok(())
    }

    /// The files, synced; none if there were no rows. The directory is left to the caller.
    pub(crate) fn finish(mut self) -> Result<Vec<PathBuf>> {
        self.end()?;
        Ok(self.files)
    }
}

impl RocksDb {
    /// How the files of a family are written.
    pub(crate) fn file_format(&self, spec: &FamilySpec) -> Result<FileFormat> {
        let mut options = family_options(spec, &self.options)?;
        if let Some(environment) = &self.options.environment {
            options.set_env(&environment.env);
        }
        Ok(FileFormat(options))
    }

    /// Takes sorted files in, all at once. With `keep` they stay where they are, hard-linked where
    /// the file system can.
    pub(crate) fn ingest(&self, family: Family, files: &[PathBuf], keep: bool) -> Result<()> {
        if files.is_empty() {
            return Ok(());
        }
        let guard = self.guard()?;
        let mut options = IngestExternalFileOptions::default();
        options.set_move_files(!keep);
        options.set_link_files(keep);
        options.set_fill_cache(false);
        self.opened(&guard)?
            .ingest_external_file_cf_opts(&family.handle, &options, files.to_vec())
            .map_err(|e| failure("taking sorted files in", self.path(), e))
    }

    /// Hands all rows of a family to `f`, in key order, past the cache.
    pub(crate) fn for_each_row(
        &self,
        family: Family,
        snapshot: &Snapshot,
        mut f: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        let guard = self.guard()?;
        let mut options = ReadOptions::default();
        snapshot.pin(&mut options);
        options.fill_cache(false);
        options.set_readahead_size(READ_AHEAD);
        options.set_total_order_seek(true);
        let mut rows = self
            .opened(&guard)?
            .raw_iterator_cf_opt(&family.handle, options);
        rows.seek_to_first();
        while let Some((key, value)) = rows.item() {
            f(key, value)?;
            rows.next();
        }
        rows.status().map_err(|e| failure("a scan", self.path(), e))
    }

    /// Deletes a closed temporary database; what cannot be deleted is left to the next open of its
    /// database.
    pub(super) fn destroy(&self) {
        let destroyed = rocks_options(&self.options)
            .is_ok_and(|options| rust_rocksdb::DB::destroy(&options, self.path()).is_ok());
        if destroyed {
            let _ = std::fs::remove_dir_all(self.path());
        }
    }
}

/// An error of the file system, outside of RocksDB.
pub(crate) fn refused(doing: &str, path: &Path, error: &std::io::Error) -> Error {
    let advice = match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            "the disk is full; free space, then call rollback() or open the database again"
        }
        _ => {
            "the operating system refused it; see the cause, then call rollback() or open the \
             database again"
        }
    };
    Error::new(
        ErrorKind::Io,
        format!("{doing} failed: {advice} (cause: {error})"),
    )
    .path(path)
}
