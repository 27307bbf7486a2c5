//! Work on whole families and files: compaction, deletion, copies.

use crate::error::{Error, ErrorKind, Result};
use crate::failpoint::Failpoint;
use crate::rocks::failure::failure;
use crate::rocks::family::Family;
use crate::rocks::options::sync_path;
use crate::rocks::rocks_db::RocksDb;
use rust_rocksdb::{ColumnFamilyMetaDataOptions, WriteBatch, WriteOptions};
use std::path::Path;

impl RocksDb {
    /// Compacts a whole family, which drops the rows that its compaction filter finds expired.
    ///
    /// # Errors
    /// `Io` if this or another flush or compaction fails meanwhile. If an earlier failure has
    /// stopped the database: `Io`, or `StoreCorrupted` if a file is damaged.
    pub fn compact(&self, family: Family) -> Result<()> {
        // A database that has stopped compacts nothing, and only a write shows it.
        self.wait_until_writable()?;
        let guard = self.guard()?;
        // RocksDB's call returns no error.
        let failed = self.background_errors()?;
        self.opened(&guard)?
            .compact_range_cf(&family.handle, None::<&[u8]>, None::<&[u8]>);
        if self.background_errors()? == failed {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Io,
            "rewriting a store's files failed: free disk space, then close the database and open \
             it again (the cause is in the file LOG)",
        )
        .path(&self.path))
    }

    /// Deletes the files of a family that have no key above `end`, except files in level 0. No
    /// reader may need a key up to `end`.
    pub fn drop_files_below(&self, family: Family, end: &[u8]) -> Result<()> {
        let guard = self.guard()?;
        self.opened(&guard)?
            .delete_file_in_range_cf(&family.handle, &[][..], end)
            .map_err(|e| failure("deleting files of a store", &self.path, e))
    }

    /// Deletes all rows of a family, from its files too.
    ///
    /// A range tombstone is not enough: an expiry filter also sees the rows below it. If an older
    /// version of a key were put later, the filter would compute the end of that version from a
    /// deleted newer one.
    pub fn clear(&self, family: Family) -> Result<()> {
        let guard = self.guard()?;
        let db = self.opened(&guard)?;
        let mut rows = db.raw_iterator_cf(&family.handle);
        rows.seek_to_last();
        let last = rows.key().map(<[u8]>::to_vec);
        rows.status()
            .map_err(|e| failure("reading a family's end", &self.path, e))?;
        drop(rows);
        if let Some(last) = &last {
            let mut batch = WriteBatch::default();
            batch.delete_range_cf(&family.handle, &[][..], &[&last[..], &[0]].concat()[..]);
            let mut options = WriteOptions::default();
            options.disable_wal(!self.options.sync);
            options.set_sync(self.options.sync);
            db.write_opt(&batch, &options)
                .map_err(|e| failure("deleting a store's rows", &self.path, e))?;
        }
        // Even if no row is visible, the files may have rows below the tombstone of an earlier
        // attempt that failed.
        let Some(last) = last.max(self.last_key_in_files(family)?) else {
            return Ok(());
        };
        let drop_files = || self.drop_files_below(family, &[&last[..], &[0]].concat());
        // Files of level 0 are never dropped, so a compaction moves them down in between. It also
        // moves the rows that a snapshot pins.
        drop_files()?;
        db.compact_range_cf(&family.handle, None::<&[u8]>, None::<&[u8]>);
        drop_files()?;
        // The compaction returns no error.
        if self.last_key_in_files(family)?.is_none() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Io,
            "deleting a store's rows failed: its files could not be rewritten; free disk space, \
             then open the database again (the cause is in the file LOG)",
        )
        .path(&self.path))
    }

    /// The greatest key in a family's files, including those of deleted rows.
    fn last_key_in_files(&self, family: Family) -> Result<Option<Vec<u8>>> {
        let guard = self.guard()?;
        let levels = self
            .opened(&guard)?
            .get_column_family_metadata_cf_with_options(
                &family.handle,
                &ColumnFamilyMetaDataOptions::default(),
            );
        Ok(levels
            .iter()
            .flat_map(|level| level.sst_files())
            .map(|file| file.largest_key())
            .max())
    }

    /// Makes a consistent copy in a new directory, with hard links where the file system has them.
    pub fn checkpoint(&self, directory: &Path) -> Result<()> {
        let guard = self.guard()?;
        Failpoint::BeforeCheckpoint.pass()?;
        let checkpoint = rust_rocksdb::checkpoint::Checkpoint::new(self.opened(&guard)?)
            .map_err(|e| failure("a checkpoint", &self.path, e))?;
        checkpoint
            .create_checkpoint(directory)
            .map_err(|e| failure("a checkpoint", directory, e))?;
        // RocksDB renames the finished directory, and syncs only what is in it.
        let parent = directory
            .parent()
            .filter(|path| !path.as_os_str().is_empty());
        match sync_path(parent.unwrap_or(Path::new(".")), None) {
            // A folder that this user cannot read cannot be synced.
            Err(e) if e.kind() != std::io::ErrorKind::PermissionDenied => {
                let text =
                    format!("the folder above a checkpoint cannot be synced: {e}; check the disk");
                return Err(Error::new(ErrorKind::Io, text).path(directory));
            }
            _ => {}
        }
        Failpoint::AfterCheckpoint.pass()
    }
}
