//! Rows of the database's own families, kept in the default family while an older layout may have
//! the database: its opener names the stores' families alone, and RocksDB opens a database only
//! with all of its families.
//!
//! ```text
//! default   holdfast: | family's name | : | key → value    file:NAME is the text of a file
//! ```

use super::commit_number;
use super::failure::failure;
use super::rocks_db::RocksDb;
use crate::error::Result;
use crate::failpoint::Failpoint;
use crate::table::{FamilyKind, FamilySpec};
use rust_rocksdb::{IteratorMode, WriteBatch, WriteOptions};

/// What the keys of such rows begin with.
pub(crate) const KEPT: &[u8] = b"holdfast:";

/// The key under which a row of a family is kept.
pub(crate) fn kept_key(family: &str, key: &[u8]) -> Vec<u8> {
    [KEPT, family.as_bytes(), b":", key].concat()
}

impl RocksDb {
    /// Copies the rows of the database's own families into the default one; on disk when it
    /// returns. What is kept counts once `metadata` is gone. `files` are texts to be kept with
    /// them, by name.
    pub fn keep_rows(&self, files: &[(String, String)]) -> Result<()> {
        let guard = self.guard()?;
        let db = self.opened(&guard)?;
        let failed = |e| {
            failure(
                "keeping what an older layout has no place for",
                self.path(),
                e,
            )
        };
        let mut batch = WriteBatch::default();
        for kind in [FamilyKind::Metadata, FamilyKind::Offsets] {
            let spec = FamilySpec::new(kind, "");
            for row in db.iterator_cf(&self.family(&spec)?.handle, IteratorMode::Start) {
                let (key, value) = row.map_err(failed)?;
                batch.put(kept_key(&spec.name(), &key), value);
            }
        }
        for (name, text) in files {
            batch.put(kept_key("file", name.as_bytes()), text);
        }
        let mut options = WriteOptions::default();
        options.disable_wal(!self.sync);
        options.set_sync(self.sync);
        let metadata = FamilySpec::new(FamilyKind::Metadata, "");
        let family = self.family(&metadata)?;
        self.commits
            .next(|number| {
                batch.put(
                    kept_key(&metadata.name(), commit_number::KEY),
                    number.to_be_bytes(),
                );
                batch.put_cf(&family.handle, commit_number::KEY, number.to_be_bytes());
                db.write_opt(&batch, &options)
            })
            .map_err(failed)?;
        self.flush_all(db, true)?;
        Failpoint::RowsKept.reached()
    }

    /// Drops the database's own families, of which nothing may be read any more, and closes.
    pub fn close_without_own_families(&self) -> Result<()> {
        let mut guard = self.db.write();
        self.end_cursors();
        let Some(mut db) = guard.take() else {
            return Err(self.closed());
        };
        let mut drop_family = |kind| {
            db.drop_cf(&FamilySpec::new(kind, "").name())
                .map_err(|e| failure("dropping a column family", self.path(), e))
        };
        drop_family(FamilyKind::Metadata)?;
        Failpoint::OneFamilyDropped.reached()?;
        drop_family(FamilyKind::Offsets)
    }
}
