//! Reads as of a snapshot.

use crate::error::Result;
use crate::rocks::failure::failure;
use crate::rocks::family::Family;
use crate::rocks::rocks_db::RocksDb;
use crate::rocks::snapshot::Snapshot;
use rust_rocksdb::ErrorKind;

/// Keys of one native MultiGet: enough for RocksDB's batching, but few enough that their results
/// take little memory. The snapshot's read options limit the bytes of the values.
const MULTI_GET_KEYS: usize = 1024;

impl RocksDb {
    /// Reads one key as of a snapshot; `f` gets the value without a copy.
    pub fn get<R>(
        &self,
        family: Family,
        key: &[u8],
        snapshot: &Snapshot,
        f: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R> {
        let guard = self.guard()?;
        let found = self
            .opened(&guard)?
            .get_pinned_cf_opt(&family.handle, key, snapshot.read_options())
            .map_err(|e| failure("a read", &self.path, e).key(key))?;
        Ok(f(found.as_deref()))
    }

    /// Reads many keys, which must be in ascending order, as of a snapshot. Calls `f` for each, in
    /// order.
    pub fn multi_get_sorted(
        &self,
        family: Family,
        keys: &[&[u8]],
        snapshot: &Snapshot,
        mut f: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        if let [key] = keys {
            // A MultiGet from files takes 40 KB of the stack, which a thread keeps. A host has a
            // thread for each reader.
            return self.get(family, key, snapshot, |value| f(0, value));
        }
        let guard = self.guard()?;
        let db = self.opened(&guard)?;
        let mut start = 0;
        while start < keys.len() {
            let chunk = &keys[start..keys.len().min(start + MULTI_GET_KEYS)];
            let mut end = start;
            let found = db
                .batched_multi_get_pinned_batch_cf_opt(
                    &family.handle,
                    chunk,
                    true,
                    snapshot.read_options(),
                )
                .map_err(|e| failure("a batch of reads", &self.path, e))?;
            for (i, key) in chunk.iter().enumerate() {
                let value = match found.get(i) {
                    Some(Ok(value)) => value,
                    // The values so far have reached the limit of bytes.
                    Some(Err(e)) if e.kind() == ErrorKind::Aborted => break,
                    Some(Err(e)) => return Err(failure("a batch of reads", &self.path, e).key(key)),
                    None => None,
                };
                f(end, value);
                end += 1;
            }
            drop(found);
            if end == start {
                // MultiGet reads memtables first: keys that it found there have used up the limit.
                self.get(family, keys[start], snapshot, |value| f(start, value))?;
                end += 1;
            }
            start = end;
        }
        Ok(())
    }
}
