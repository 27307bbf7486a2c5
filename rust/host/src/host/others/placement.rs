//! Which host serves each partition, as the sessions of this host have found.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use crate::host::open_partitions::PartitionKey;
use crate::protocol::{Epoch, HostId, RunNumber};

/// The owners that sessions of this host have found.
///
/// A partition may have moved since. A partition without a session on this host is unknown.
#[derive(Default)]
pub struct Placement {
    owners: Mutex<HashMap<PartitionKey, HostId>>,
    /// The newest session of each root.
    newest: Mutex<HashMap<PathBuf, (RunNumber, Epoch)>>,
}

impl Placement {
    /// Notes the owner of a partition.
    pub fn see(&self, key: PartitionKey, owner: &HostId) {
        self.owners.lock().insert(key, owner.clone());
    }

    /// Notes a session's run and epoch.
    pub fn reach(&self, root: &Path, run: RunNumber, epoch: Epoch) {
        let mut newest = self.newest.lock();
        let known = newest.entry(root.to_owned()).or_insert((run, epoch));
        *known = (*known).max((run, epoch));
    }

    /// Returns the run and epoch of the newest session of a root.
    pub fn newest(&self, root: &Path) -> Option<(RunNumber, Epoch)> {
        self.newest.lock().get(root).copied()
    }

    /// Whether a host was found to own a partition.
    pub fn is_owner(&self, key: &PartitionKey, host: &HostId) -> bool {
        self.owners.lock().get(key) == Some(host)
    }

    /// Returns how many partitions of a root each of two hosts serves.
    pub fn loads(&self, root: &Path, hosts: [&HostId; 2]) -> [usize; 2] {
        let owners = self.owners.lock();
        let of_root = || owners.iter().filter(move |(key, _)| key.root == root);
        hosts.map(|host| of_root().filter(|(_, owner)| *owner == host).count())
    }

    /// Returns the partitions of a root that a host serves.
    pub fn partitions_of(&self, root: &Path, host: &HostId) -> Vec<PartitionKey> {
        let owners = self.owners.lock();
        let theirs = owners
            .iter()
            .filter(|(key, owner)| key.root == root && *owner == host);
        theirs.map(|(key, _)| key.clone()).collect()
    }

    /// Forgets a root that is gone.
    pub fn forget(&self, root: &Path) {
        self.owners.lock().retain(|key, _| key.root != root);
        self.newest.lock().remove(root);
    }
}
