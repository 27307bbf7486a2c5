//! What a state host keeps between sessions: roots, open partitions, budgets, counts.

mod nonces;
mod open_partitions;
mod operator_calls;
pub mod request;
pub mod row_counts;
mod unreachable;

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_core::Result;
use parking_lot::Mutex;

use crate::executor::Executor;
use crate::host::nonces::Nonces;
use crate::host::open_partitions::{OpenPartitions, PartitionKey};
use crate::host::operator_calls::OperatorCalls;
use crate::host::request::{Request, Settings};
use crate::host::row_counts::RowCounts;
use crate::host::unreachable::UnreachableHosts;
use crate::memory::split::MemorySplit;
use crate::partition::PartitionState;
use crate::protocol::{Counts, Epoch, HostId, OperatorName, Owner, RunNumber, Term};
use crate::root::{Ownership, OwnershipRequest, Root, StorageOptions};

/// The state that all sessions of a host share.
pub struct Host {
    executor: Option<Executor>,
    id: HostId,
    address: Option<HostAddress>,
    unreachable: UnreachableHosts,
    roots: Mutex<HashMap<String, Arc<Root>>>,
    partitions: OpenPartitions,
    calls: OperatorCalls,
    memory: MemorySplit,
    row_counts: RowCounts,
    nonces: Nonces,
}

/// How workers of other executors connect to a host.
#[derive(Clone)]
pub struct HostAddress {
    /// `name:port`.
    pub endpoint: String,
    /// The token that the host requires.
    pub token: String,
}

impl Host {
    /// A host without sessions.
    ///
    /// `executor`: the executor that it serves, if any. `address`: where workers of other executors
    /// connect, if they can.
    pub fn new(executor: Option<Executor>, address: Option<HostAddress>) -> Self {
        let random = RandomState::new().build_hasher().finish();
        Self {
            executor,
            id: HostId(format!("{}-{random:016x}", std::process::id())),
            address,
            unreachable: UnreachableHosts::default(),
            roots: Mutex::default(),
            partitions: OpenPartitions::default(),
            calls: OperatorCalls::default(),
            memory: MemorySplit::default(),
            row_counts: RowCounts::default(),
            nonces: Nonces::default(),
        }
    }

    /// Adds a session's rows without a result to the counts that are logged.
    pub(crate) fn count_rows(
        &self,
        root: &Root,
        operator: &OperatorName,
        epoch: Epoch,
        counts: Counts,
    ) {
        self.row_counts.add(root.path(), operator, epoch, counts);
        self.log_row_counts(false);
    }

    /// Logs the counts that are due; all counts if `all`.
    pub fn log_row_counts(&self, all: bool) {
        let lines = self.row_counts.take_lines(Instant::now(), all);
        lines.iter().for_each(|line| log::info!("{line}"));
    }

    /// The executor that this host serves.
    pub fn executor(&self) -> Option<&Executor> {
        self.executor.as_ref()
    }

    /// Divides the memory of the host by a query's settings.
    pub(crate) fn apply_memory(&self, settings: &Settings) {
        self.memory
            .set_limits(settings.memory, settings.uncommitted_max_bytes);
    }

    /// The budgets of the host.
    pub(crate) fn memory(&self) -> &MemorySplit {
        &self.memory
    }

    /// Returns the root of a name, which is opened once. Its client uses the newest options.
    pub(crate) fn root(&self, name: &str, options: &StorageOptions) -> Result<Arc<Root>> {
        let known = self.roots.lock().get(name).map(Arc::clone);
        if let Some(root) = known {
            root.renew(options)?;
            return Ok(root);
        }
        let root = Arc::new(Root::open(name, options)?);
        Ok(Arc::clone(
            self.roots.lock().entry(name.to_owned()).or_insert(root),
        ))
    }

    /// Sets the root of a name.
    #[cfg(test)]
    pub(crate) fn set_root(&self, name: &str, root: Root) {
        self.roots.lock().insert(name.to_owned(), Arc::new(root));
    }

    /// Returns the owner of a request's partition. This host claims it if there is no owner.
    ///
    /// If another host owns the partition, this host closes its own database of the partition. That
    /// database would become outdated, and it locks its directory.
    ///
    /// # Errors
    /// `Fenced` if the run is not the newest; otherwise the root's.
    pub(crate) fn own(
        &self,
        request: &Request,
        root: &Root,
        run: RunNumber,
        query_id: &str,
    ) -> Result<Ownership> {
        let address = self.address.as_ref();
        let host = Owner {
            term: Term::first(run),
            host: self.id.clone(),
            endpoint: address.map(|address| address.endpoint.clone()),
            token: address.map_or_else(String::new, |address| address.token.clone()),
            application: request.application.clone(),
        };
        let unreachable = self.unreachable.merge(&request.unreachable);
        let asking = OwnershipRequest {
            operator: &request.operator.name,
            partition: request.partition,
            run,
            host: &host,
            unreachable: &unreachable,
        };
        let ownership = root.owners.acquire(&asking)?;
        if let Ownership::Elsewhere(owner) = &ownership {
            let key = PartitionKey::of(request, root, query_id);
            if let Some(partition) = self.partitions.remove(&key) {
                log::info!("{partition}: closed, it is owned by {owner:?} now");
                partition.close();
            }
        }
        Ok(ownership)
    }

    /// Returns the partition that a request names; its database opens with the first view.
    pub(crate) fn partition(
        &self,
        request: &Request,
        root: &Arc<Root>,
        query_id: &str,
    ) -> Arc<PartitionState> {
        let key = PartitionKey::of(request, root, query_id);
        self.partitions.get_or_create(key, root)
    }

    /// Checks that only one call of an operator serves an epoch, and that each task attempt opens
    /// at most one session per partition.
    ///
    /// # Errors
    /// `InvalidState` names the operator and the remedy.
    pub(crate) fn register_call(
        &self,
        root: &Root,
        request: &Request,
        run: RunNumber,
        epoch: Epoch,
    ) -> Result<()> {
        self.calls.register(root.path(), request, run, epoch)
    }

    /// Returns a nonce for chunk names; no other host generates the same one.
    pub(crate) fn nonce(&self) -> String {
        self.nonces.next()
    }

    /// Closes partitions that no session has used for `idle`: their query has ended, or they have
    /// moved.
    pub fn close_unused(&self, idle: Duration) {
        for partition in self.partitions.remove_unused(idle) {
            log::info!(
                "{partition}: closed, it was not used for {} s",
                idle.as_secs()
            );
            partition.close();
        }
    }

    /// Whether a snapshot is being uploaded.
    pub fn is_uploading(&self) -> bool {
        let partitions = self.partitions.all();
        partitions.iter().any(|partition| partition.is_uploading())
    }

    /// Flushes and closes all databases.
    pub fn close(&self) {
        let partitions = self.partitions.remove_all();
        partitions.iter().for_each(|partition| partition.close());
        self.log_row_counts(true);
    }

    /// How many times local databases of open partitions were discarded and rebuilt from the log.
    pub fn rebuilds(&self) -> u64 {
        let partitions = self.partitions.all();
        partitions
            .iter()
            .map(|partition| partition.rebuilds())
            .sum()
    }
}
