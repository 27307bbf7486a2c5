//! Closing a database so that an older layout can open it.

use crate::error::Result;
use crate::failpoint::Failpoint;
use crate::rocks::failure::failure;
use crate::rocks::older_layout_rows::older_layout_key;
use crate::rocks::recovery::commit_number;
use crate::rocks::rocks_db::RocksDb;
use crate::table::{FamilyKind, FamilySpec};
use rust_rocksdb::{IteratorMode, WriteBatch, WriteOptions};

impl RocksDb {
    /// Copies the rows of the database's own families, and `files` (names and texts), into the
    /// `default` family; on disk on return. The copies are valid once the `metadata` family is
    /// dropped.
    pub fn copy_own_rows(&self, files: &[(String, String)]) -> Result<()> {
        let guard = self.guard()?;
        let db = self.opened(&guard)?;
        let failed = |e| {
            failure(
                "saving the rows that an older layout cannot hold",
                self.path(),
                e,
            )
        };
        let mut batch = WriteBatch::default();
        for kind in [FamilyKind::Metadata, FamilyKind::Offsets] {
            let spec = FamilySpec::new(kind, "");
            for row in db.iterator_cf(&self.family(&spec)?.handle, IteratorMode::Start) {
                let (key, value) = row.map_err(failed)?;
                batch.put(older_layout_key(&spec.name(), &key), value);
            }
        }
        for (name, text) in files {
            batch.put(older_layout_key("file", name.as_bytes()), text);
        }
        let mut options = WriteOptions::default();
        options.disable_wal(!self.options.sync);
        options.set_sync(self.options.sync);
        let metadata = FamilySpec::new(FamilyKind::Metadata, "");
        let family = self.family(&metadata)?;
        self.commits
            .next(|number| {
                batch.put(
                    older_layout_key(&metadata.name(), commit_number::KEY),
                    number.to_be_bytes(),
                );
                batch.put_cf(&family.handle, commit_number::KEY, number.to_be_bytes());
                db.write_opt(&batch, &options)
            })
            .map_err(failed)?;
        self.flush_all(db, true)?;
        Failpoint::OlderRowsCopied.pass()
    }

    /// Drops the database's own families and closes; no reader may use them any more.
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
        Failpoint::OneFamilyDropped.pass()?;
        drop_family(FamilyKind::Offsets)
    }
}
