//! The state of a host between sessions: roots, open partitions, budgets, counts.

mod counters;
mod metrics;
mod nonces;
mod open_partitions;
mod open_roots;
mod operator_calls;
mod others;
mod ownership;
mod readers;
mod reads;
pub mod request;
pub mod row_counts;

pub(crate) use counters::OpenCount;
pub use others::{ProvenWriter, WritableRoot};
pub use reads::OpenView;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_core::Result;

use crate::cancellation::Cancellation;
use crate::executor::Executor;
use crate::host::counters::HostCounters;
use crate::host::nonces::Nonces;
use crate::host::open_partitions::{OpenPartitions, PartitionKey};
use crate::host::open_roots::OpenRoots;
use crate::host::operator_calls::OperatorCalls;
use crate::host::others::OtherHosts;
use crate::host::reads::Reads;
use crate::host::request::{QueryEpoch, Request, Settings};
use crate::host::row_counts::RowCounts;
use crate::memory::split::MemorySplit;
use crate::net::tls::Channel;
use crate::partition::{PartitionState, STAGE_IDLE};
use crate::protocol::{Counts, Epoch, HostId, OperatorName, PartitionId, RunNumber, TcpEndpoint};
use crate::root::{RanSince, ReaderAddress, Root, RootPresence};

/// How long a database that must be closed may still be used by another session.
const CLOSES: Duration = Duration::from_secs(5);

/// The state that all sessions of a host share.
pub struct Host {
    executor: Option<Executor>,
    identity: HostIdentity,
    reads: Reads,
    others: OtherHosts,
    roots: OpenRoots,
    partitions: OpenPartitions,
    calls: OperatorCalls,
    memory: MemorySplit,
    row_counts: RowCounts,
    nonces: Nonces,
}

/// How a host names itself in its claims.
struct HostIdentity {
    id: HostId,
    /// Where workers of other executors connect.
    endpoint: Option<TcpEndpoint>,
}

impl Host {
    /// A host without sessions.
    ///
    /// `executor`: the executor that it serves, if any. `endpoint`: where workers of other
    /// executors connect, if they can.
    pub fn new(executor: Option<Executor>, endpoint: Option<TcpEndpoint>) -> Self {
        let random = RandomState::new().build_hasher().finish();
        Self {
            executor,
            identity: HostIdentity {
                id: HostId(format!("{}-{random:016x}", std::process::id())),
                endpoint,
            },
            reads: Reads::default(),
            others: OtherHosts::default(),
            roots: OpenRoots::default(),
            partitions: OpenPartitions::default(),
            calls: OperatorCalls::default(),
            memory: MemorySplit::default(),
            row_counts: RowCounts::default(),
            nonces: Nonces::default(),
        }
    }

    /// The host, with an address for readers.
    #[must_use]
    pub fn with_readers(self, address: ReaderAddress) -> Self {
        Self {
            reads: Reads::at(address),
            ..self
        }
    }

    /// Adds a session's counts of rows that gave no result, and logs the counts that are due.
    pub(crate) fn count_rows(
        &self,
        root: &Root,
        (operator, partition): (&OperatorName, PartitionId),
        epoch: Epoch,
        counts: Counts,
    ) {
        self.reads
            .counters
            .add_rows(root.path(), operator, partition, &counts);
        self.row_counts.add(root.path(), operator, epoch, counts);
        self.log_row_counts(false);
    }

    /// Logs the counts that are due; all counts if `all`.
    pub fn log_row_counts(&self, all: bool) {
        let lines = self.row_counts.take_lines(Instant::now(), all);
        lines.iter().for_each(|line| log::info!("{line}"));
    }

    /// Returns the host's counters.
    pub(crate) fn counters(&self) -> &HostCounters {
        &self.reads.counters
    }

    /// The executor that this host serves.
    pub fn executor(&self) -> Option<&Executor> {
        self.executor.as_ref()
    }

    /// Sets the memory limits of the host to those in a query's settings.
    pub(crate) fn apply_memory(&self, settings: &Settings) {
        self.memory
            .set_limits(settings.memory, settings.uncommitted_max_bytes);
    }

    /// The budgets of the host.
    pub(crate) fn memory(&self) -> &MemorySplit {
        &self.memory
    }

    /// Adds the root and the local folder of a session of this host's own executor to those that
    /// sessions of other executors may name.
    pub(crate) fn serve(&self, request: &Request) {
        self.roots
            .serve(request.root.as_deref(), request.local_dir.as_deref());
    }

    /// Whether a session of another executor may use the root and the local folder that its request
    /// names. `writable`: the root that the session's worker may write.
    pub(crate) fn serves(&self, request: &Request, writable: &WritableRoot) -> bool {
        let (root, local_dir) = (request.root.as_deref(), request.local_dir.as_deref());
        let served = root.and_then(|root| self.roots.served(root, local_dir));
        let named = served.and_then(|root| WritableRoot::of(&root));
        !request.scratch && named.as_ref() == Some(writable)
    }

    /// Lets workers of other executors open sessions of a root, if they have the secret of this
    /// request.
    pub(crate) fn admit_writers(&self, root: &Root, run: RunNumber, request: &Request) {
        let writers = &self.others.writers;
        if let (Some(root), Some(name)) = (WritableRoot::of(root), &request.root)
            && let Some(secret) = &request.writer_secret
        {
            writers.admit(root, name, run, secret);
        }
    }

    /// Returns the root that the worker at the other end of a connection may write; none if the
    /// proof is not valid for this connection.
    pub(crate) fn proven_writer(&self, proof: &[u8], channel: &Channel) -> Option<ProvenWriter> {
        self.others.writers.proven(proof, channel)
    }

    /// Returns the root of a session, after a check that it is the query's.
    ///
    /// Nothing is written before the check. If a root was deleted and created again under its path,
    /// or restored from a backup, the databases of the former root are closed, and the root is
    /// opened again.
    ///
    /// # Errors
    /// Those of [`Root::open_under`], [`crate::root::RootIdentity::check_query`] and
    /// [`crate::root::RunClaims::are_in_force`].
    pub(crate) fn root(&self, request: &Request, query: &QueryEpoch) -> Result<Arc<Root>> {
        loop {
            let root = self
                .roots
                .get_or_open(&query.root, &request.storage_options)?;
            let presence = root.identity.check_query(
                &query.query_id,
                &query.run_id,
                request.partitions,
                (query.epoch, request.in_streaming_plan),
            )?;
            if presence != RootPresence::Same {
                self.forget_root(&root, "another root is under its path now");
            } else if root.runs.are_in_force(&query.run_id)? {
                return Ok(root);
            } else {
                // Databases, decisions and ownership are stored by run number. The next run would
                // get the number of a run that the backup does not have.
                self.forget_root(&root, "it was restored from a backup");
            }
        }
    }

    /// Sets the root to which `name` refers in requests.
    #[cfg(test)]
    pub(crate) fn set_root(&self, name: &str, root: Root) {
        self.roots.set(name, root);
    }

    /// Closes the databases of roots that were deleted, or deleted and created again.
    pub fn close_gone_roots(&self) {
        for root in self.roots.all() {
            match root.identity.presence() {
                Ok(RootPresence::Same) => {}
                Ok(RootPresence::Gone) => self.forget_root(&root, "it was deleted"),
                Ok(RootPresence::Another) => {
                    self.forget_root(&root, "another root is under its path now");
                }
                // A root that does not answer is not gone.
                Err(error) => log::debug!("{}: {error}", root.path().display()),
            }
        }
    }

    fn forget_root(&self, root: &Arc<Root>, reason: &str) {
        self.roots.forget(root, || {
            let partitions = self.partitions.remove_of_root(root);
            log::info!(
                "root {}: {reason}; {} databases are closed",
                root.path().display(),
                partitions.len()
            );
            let deadline = Instant::now() + CLOSES;
            for partition in &partitions {
                partition.close_until(deadline);
            }
            self.calls.forget(root.path());
            self.reads.forget(root);
            self.others.placement.forget(root.path());
            if let Some(root) = WritableRoot::of(root) {
                self.others.writers.forget(&root);
            }
        });
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

    /// Returns an operator that ran before this epoch, as far as this host knows.
    ///
    /// An operator in the streaming plan runs in each epoch since its first one. An operator that a
    /// `foreachBatch` function calls ran in the previous epoch if this host opened a session of it
    /// in that epoch. `first_epoch`: that of the request's operator.
    pub(crate) fn ran_before(
        &self,
        root: &Root,
        request: &Request,
        (run, epoch): (RunNumber, Epoch),
        first_epoch: Epoch,
    ) -> Option<RanSince> {
        if request.in_streaming_plan {
            return Some(RanSince {
                operator: request.operator.name.clone(),
                epoch: first_epoch,
            });
        }
        let epoch = epoch.previous()?;
        self.calls
            .opened(root.path(), run, epoch, &request.operator.name)
            .map(|operator| RanSince { operator, epoch })
    }

    /// Returns a nonce for chunk names; no other host generates the same one.
    pub(crate) fn nonce(&self) -> String {
        self.nonces.next()
    }

    /// Returns how long this host may be without a session: `minimum`, or three times the longest
    /// pause of its queries if that is longer.
    pub fn idle_limit(&self, minimum: Duration) -> Duration {
        let roots = self.roots.all();
        let limits = roots
            .iter()
            .map(|root| self.roots.idle_limit(root, minimum));
        limits.max().unwrap_or(minimum)
    }

    /// Closes partitions that no session has used for `idle`, or for three times the longest pause
    /// of their query if that is longer.
    ///
    /// Their query has ended, or the partitions have moved.
    pub fn close_unused(&self, idle: Duration) {
        for root in self.roots.all() {
            if !self.partitions.has_unused(&root, idle) {
                continue;
            }
            let limit = self.roots.idle_limit(&root, idle);
            for partition in self.partitions.remove_unused(&root, limit) {
                log::info!(
                    "{partition}: closed, it was not used for {} s",
                    limit.as_secs()
                );
                partition.close();
            }
        }
    }

    /// Drops the staged epochs that readers have loaded, if no reader has used them for a while.
    pub fn drop_unused_stages(&self) {
        for partition in self.partitions.all() {
            partition.drop_unused_stage(STAGE_IDLE);
        }
    }

    /// Starts the snapshots that are due when the host ends.
    pub fn snapshot_at_end(&self) {
        let partitions = self.partitions.all();
        partitions.iter().for_each(PartitionState::snapshot_at_end);
    }

    /// Whether a snapshot is being uploaded.
    pub fn is_uploading(&self) -> bool {
        let partitions = self.partitions.all();
        partitions.iter().any(|partition| partition.is_uploading())
    }

    /// Ends restores, replays, sorts and uploads, and every request to a root.
    ///
    /// They leave what a kill leaves: a staged object is whole or absent, a snapshot without a
    /// manifest does not count, and a local database is at its last flush.
    pub fn cancel(&self) {
        self.roots.cancellation.cancel();
    }

    /// Returns the cancellation of this host's work.
    pub(crate) fn cancellation(&self) -> &Cancellation {
        &self.roots.cancellation
    }

    /// Flushes and closes all databases.
    pub fn close(&self) {
        let partitions = self.partitions.remove_all();
        partitions.iter().for_each(|partition| partition.close());
        self.log_row_counts(true);
    }

    /// As [`Host::close`], but a database that is still in use at `deadline` stays open until the
    /// process ends.
    pub fn close_until(&self, deadline: Instant) {
        for partition in self.partitions.remove_all() {
            if !partition.close_until(deadline) {
                log::warn!("{partition}: its database is in use, and open until this process ends");
            }
        }
        self.log_row_counts(true);
    }
}
