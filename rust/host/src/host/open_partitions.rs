//! The partitions that a host has open, and when each was last used.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::host::request::Request;
use crate::partition::PartitionState;
use crate::protocol::{OperatorName, PartitionId};
use crate::root::Root;

/// The partitions of a host whose databases are open, or will open with their next view.
#[derive(Default)]
pub struct OpenPartitions {
    partitions: Mutex<HashMap<PartitionKey, OpenPartition>>,
}

/// A partition of an operator of a query, below one local folder.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PartitionKey {
    /// The root's path or address.
    pub root: PathBuf,
    local_dir: PathBuf,
    /// The query.
    pub query_id: String,
    /// The operator.
    pub operator: OperatorName,
    /// The partition.
    pub partition: PartitionId,
}

impl PartitionKey {
    /// The key of the partition that a request names.
    pub fn of(request: &Request, root: &Root, query_id: &str) -> Self {
        Self {
            root: root.path().to_owned(),
            local_dir: request.local_dir.as_ref().map_or_else(
                || root.local_dir(),
                |shared| shared.join(query_folder(query_id)),
            ),
            query_id: query_id.to_owned(),
            operator: request.operator.name.clone(),
            partition: request.partition,
        }
    }
}

/// The folder of a query's databases below a `local_dir`, which queries may share.
///
/// Characters that may not be valid in a folder's name are replaced; Spark's query ids have none.
fn query_folder(query_id: &str) -> String {
    query_id
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '-' {
                c
            } else {
                '_'
            }
        })
        .collect()
}

struct OpenPartition {
    state: Arc<PartitionState>,
    last_used: Instant,
}

impl OpenPartition {
    fn is_unused(&self, root: &Arc<Root>, idle: Duration) -> bool {
        self.state.is_of_root(root)
            && self.last_used.elapsed() > idle
            && Arc::strong_count(&self.state) == 1
    }
}

impl OpenPartitions {
    /// Returns the partition, and creates it if it is not open.
    pub fn get_or_create(&self, key: PartitionKey, root: &Arc<Root>) -> Arc<PartitionState> {
        let mut partitions = self.partitions.lock();
        let open = partitions.entry(key).or_insert_with_key(|key| {
            let state = PartitionState::new(
                Arc::clone(root),
                &key.query_id,
                key.operator.clone(),
                key.partition,
                &key.local_dir,
            );
            OpenPartition {
                state: Arc::new(state),
                last_used: Instant::now(),
            }
        });
        open.last_used = Instant::now();
        Arc::clone(&open.state)
    }

    /// Finds an open partition by the id of its root.
    pub fn find(
        &self,
        root_id: &str,
        operator: &OperatorName,
        partition: PartitionId,
    ) -> Option<Arc<PartitionState>> {
        let partitions = self.partitions.lock();
        let of_operator = partitions
            .iter()
            .filter(|(key, _)| key.operator == *operator && key.partition == partition)
            .map(|(_, open)| open);
        let is_of_root = |open: &&OpenPartition| {
            open.state.root().identity.first_id().as_deref() == Some(root_id)
        };
        // A database in the `local_dir` of an earlier start may still be open.
        let newest = of_operator
            .filter(is_of_root)
            .max_by_key(|open| open.last_used);
        newest.map(|open| Arc::clone(&open.state))
    }

    /// Removes the partition, if it is open.
    pub fn remove(&self, key: &PartitionKey) -> Option<Arc<PartitionState>> {
        let removed = self.partitions.lock().remove(key);
        removed.map(|open| open.state)
    }

    /// Removes the partitions of an open root.
    pub fn remove_of_root(&self, root: &Arc<Root>) -> Vec<Arc<PartitionState>> {
        let mut partitions = self.partitions.lock();
        let theirs = partitions.extract_if(|_, open| open.state.is_of_root(root));
        theirs.map(|(_, open)| open.state).collect()
    }

    /// Whether a root has partitions that no session has used for longer than `idle`.
    pub fn has_unused(&self, root: &Arc<Root>, idle: Duration) -> bool {
        let partitions = self.partitions.lock();
        partitions.values().any(|open| open.is_unused(root, idle))
    }

    /// Removes the partitions of a root that no session has used for longer than `idle`.
    pub fn remove_unused(&self, root: &Arc<Root>, idle: Duration) -> Vec<Arc<PartitionState>> {
        let mut partitions = self.partitions.lock();
        let unused = partitions.extract_if(|_, open| open.is_unused(root, idle));
        unused.map(|(_, open)| open.state).collect()
    }

    /// Removes all partitions.
    pub fn remove_all(&self) -> Vec<Arc<PartitionState>> {
        let mut partitions = self.partitions.lock();
        partitions.drain().map(|(_, open)| open.state).collect()
    }

    /// Returns all partitions.
    pub fn all(&self) -> Vec<Arc<PartitionState>> {
        let partitions = self.partitions.lock();
        partitions
            .values()
            .map(|open| Arc::clone(&open.state))
            .collect()
    }
}
