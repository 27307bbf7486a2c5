//! Sorted files: rows in key order, written as files that a database ingests as they are.
//!
//! Large transactions are committed this way. A million rows take a quarter of the time of single
//! puts in random order (`docs/design/layout.md`), and the memory of one block.

use crate::error::Result;
use crate::rocks::failure::failure;
use crate::rocks::family::Family;
use crate::rocks::options::family_options;
use crate::rocks::rocks_db::RocksDb;
use crate::rocks::snapshot::Snapshot;
use crate::table::FamilySpec;
use rust_rocksdb::{IngestExternalFileOptions, Options, ReadOptions, SstFileWriter};
use std::path::{Path, PathBuf};

/// Bytes that a scan of a whole family reads ahead.
const READ_AHEAD: usize = 1 << 20;

/// The options that a family's files are written with.
pub(crate) struct FileFormat(Options);

/// Writes rows of one family, in ascending key order, each key once.
pub(crate) struct SortedFiles<'a> {
    writer: SstFileWriter<'a>,
    directory: &'a Path,
    name: String,
    /// Bytes of a file at which the next one begins.
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
                .map_err(|e| failure("creating a sorted file", &path, e))?;
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

    /// Returns the files, synced; none if there were no rows. The caller syncs the directory.
    pub(crate) fn finish(mut self) -> Result<Vec<PathBuf>> {
        self.end()?;
        Ok(self.files)
    }
}

impl RocksDb {
    /// The format of a family's files.
    pub(crate) fn file_format(&self, spec: &FamilySpec) -> Result<FileFormat> {
        let mut options = family_options(spec, &self.options)?;
        if let Some(environment) = &self.options.environment {
            options.set_env(&environment.env);
        }
        Ok(FileFormat(options))
    }

    /// Ingests sorted files, all of them or none. With `keep` the files stay in place too, as hard
    /// links where the file system has them.
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
            .map_err(|e| failure("ingesting sorted files", self.path(), e))
    }

    /// Calls `f` for all rows of a family, in key order, without filling the cache.
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
}
