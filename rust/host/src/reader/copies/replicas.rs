//! The replicas of a reader, in a folder that is removed with it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use holdfast_core::Result;
use parking_lot::Mutex;

use super::cache_settings::CacheSettings;
use super::copies_folder::CopiesFolder;
use super::copy_cache::{CopyBounds, CopyCache, CopyKey, HeldCopy};
use super::replica::{Decide, Replica, ReplicaSource, ReplicaView};
use crate::memory::budget::Budget;
use crate::protocol::{Epoch, OperatorName, PartitionId};

/// The most copies of old epochs. One statement over several operators may read a copy of each
/// operator at the same time.
const OLD_COPIES: usize = 16;
/// The memory of a reader for staged changes of the next epoch. What exceeds it is spilled.
const STAGING_BYTES: usize = 64 << 20;

/// The replicas of a reader.
pub struct Replicas {
    /// Dropped before the folder, because each replica deletes its files in it.
    cache: Arc<CopyCache>,
    /// None until the first copy is made.
    folder: Mutex<Option<CopiesFolder>>,
    parent: PathBuf,
    made: AtomicU64,
    staging: Arc<Budget>,
}

impl Replicas {
    /// Makes a reader's replicas; there are none yet.
    pub fn new(settings: CacheSettings) -> Self {
        Self {
            cache: CopyCache::new(CopyBounds {
                old: OLD_COPIES,
                bytes: settings.bytes,
            }),
            folder: Mutex::default(),
            parent: settings.directory.unwrap_or_else(std::env::temp_dir),
            made: AtomicU64::new(0),
            staging: Budget::new(STAGING_BYTES),
        }
    }

    /// The memory budget of the staged changes that reads load.
    pub fn staging(&self) -> &Arc<Budget> {
        &self.staging
    }

    /// Returns a view of a partition at an epoch, with the copy that it reads.
    ///
    /// Calls share the newest copy of a partition, and one copy for each older epoch. If an older
    /// epoch needs a copy and all [`OLD_COPIES`] are being read, the call waits for up to
    /// `timeout`.
    ///
    /// # Errors
    /// Those of [`Replica::view`] and [`CopyCache::get_or_make`].
    pub fn view(
        &self,
        source: ReplicaSource,
        (epoch, timeout): (Epoch, Duration),
        decide: &Decide<'_>,
    ) -> Result<(ReplicaView, HeldCopy)> {
        let key = CopyKey {
            operator: source.operator.clone(),
            partition: source.partition,
            epoch: None,
            first_epoch: source.first_epoch,
            stores: source.stores.clone(),
        };
        let make = || self.make(source.clone());
        let newest = self.cache.get_or_make(&key, timeout, &make)?;
        {
            let mut replica = newest.replica().lock();
            if replica.applied()?.is_none_or(|applied| applied <= epoch) {
                let note = |bytes| newest.set_bytes(bytes);
                let view = replica.view(epoch, decide, &note)?;
                drop(replica);
                return Ok((view, newest));
            }
        }
        drop(newest);
        let key = CopyKey {
            epoch: Some(epoch),
            ..key
        };
        let old = self.cache.get_or_make(&key, timeout, &make)?;
        let note = |bytes| old.set_bytes(bytes);
        let view = old.replica().lock().view(epoch, decide, &note)?;
        Ok((view, old))
    }

    /// Returns the newest epoch of the shared copies of these partitions; none if a partition has
    /// no copy, or if another call is advancing it.
    ///
    /// # Errors
    /// Those of the databases.
    pub fn held(
        &self,
        operator: &OperatorName,
        partitions: &[PartitionId],
    ) -> Result<Option<Epoch>> {
        let mut newest = None;
        for partition in partitions {
            let Some(copy) = self.cache.newest(operator, *partition) else {
                return Ok(None);
            };
            let Some(mut replica) = copy.replica().try_lock() else {
                return Ok(None);
            };
            let Some(applied) = replica.applied()? else {
                return Ok(None);
            };
            newest = newest.max(Some(applied));
        }
        Ok(newest)
    }

    fn make(&self, source: ReplicaSource) -> Result<Replica> {
        let mut folder = self.folder.lock();
        let folder = match &mut *folder {
            Some(folder) if !folder.is_removed() => folder,
            missing => missing.insert(CopiesFolder::make(&self.parent)?),
        };
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let directory = folder.path().join(number.to_string());
        Ok(Replica::new(source, directory))
    }
}
