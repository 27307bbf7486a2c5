//! The replicas of a reader, in a folder that is removed with it.

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use holdfast_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use tempfile::TempDir;

use super::replica::{Decide, Replica, ReplicaSource, ReplicaView};
use crate::protocol::{Epoch, OperatorName, PartitionId};

/// A replica that calls share.
pub type SharedReplica = Arc<Mutex<Replica>>;

/// A replica's operator and partition.
type ReplicaKey = (OperatorName, PartitionId);

/// The replicas of a reader.
pub struct Replicas {
    /// Dropped before the folder: each deletes its own copy.
    shared: Mutex<HashMap<ReplicaKey, SharedReplica>>,
    folder: TempDir,
    made: AtomicU64,
}

impl Replicas {
    /// No replicas yet, in a new folder below `cache_dir`; none: the temporary folder.
    ///
    /// # Errors
    /// `Io` if the folder cannot be made.
    pub fn new(cache_dir: Option<&Path>) -> Result<Self> {
        let parent = cache_dir.map_or_else(std::env::temp_dir, Path::to_owned);
        let made = tempfile::Builder::new()
            .prefix("holdfast-reader-")
            .permissions(std::fs::Permissions::from_mode(0o700))
            .tempdir_in(&parent);
        let folder = made.map_err(|error| {
            let text = format!(
                "the folder of a reader's copies cannot be made ({error}): give another cache_dir"
            );
            Error::new(ErrorKind::Io, text).path(&parent)
        })?;
        Ok(Self {
            shared: Mutex::default(),
            folder,
            made: AtomicU64::new(0),
        })
    }

    /// Returns a view of a partition at an epoch, and what keeps it open.
    ///
    /// Calls share the newest copy of a partition. An older epoch is read from a copy of its own.
    ///
    /// # Errors
    /// Those of [`Replica::view`].
    pub fn view(
        &self,
        source: ReplicaSource,
        epoch: Epoch,
        decide: &Decide<'_>,
    ) -> Result<(ReplicaView, SharedReplica)> {
        let key = (source.operator.clone(), source.partition);
        let replica = {
            let mut shared = self.shared.lock();
            let replica = shared
                .entry(key)
                .or_insert_with(|| self.make(source.clone()));
            Arc::clone(replica)
        };
        {
            let mut shared = replica.lock();
            if shared.applied()?.is_none_or(|applied| applied <= epoch) {
                let view = shared.view(epoch, decide)?;
                drop(shared);
                return Ok((view, replica));
            }
        }
        let replica = self.make(source);
        let view = replica.lock().view(epoch, decide)?;
        Ok((view, replica))
    }

    fn make(&self, source: ReplicaSource) -> SharedReplica {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let directory = self.folder.path().join(number.to_string());
        Arc::new(Mutex::new(Replica::new(source, directory)))
    }
}
