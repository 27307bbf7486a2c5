//! The state hosts that serve a root, as a reader uses them.

mod at_once;
mod pinned_views;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_core::Result;
use parking_lot::Mutex;

pub use self::pinned_views::{BatchOf, PinnedViews};
use super::epochs::FinalEpochs;
use super::host_connection::{FromHost, HostConnection, failed};
use crate::net::metrics::HostMetrics;
use crate::net::read::{ReadEpoch, ReadTarget};
use crate::protocol::{Epoch, IsolationLevel, OperatorName, PartitionDecision, PartitionId};
use crate::root::{ReaderAddress, Root};

/// How long an address of a partition's host is used before the root is read again. A host that
/// cannot answer for a partition is not asked again for as long.
const BELIEVED: Duration = Duration::from_secs(1);
/// The most idle connections to one host.
const IDLE: usize = 8;
/// How long a connection may be idle. Hosts end those that are idle for a minute.
const IDLE_TIME: Duration = Duration::from_secs(50);

/// The hosts of a root.
pub struct LiveHosts {
    root: Arc<Root>,
    epochs: Arc<FinalEpochs>,
    addresses: Mutex<HashMap<(OperatorName, PartitionId), KnownAddress>>,
    /// The tokens of hosts that gave no figures, and when they were asked. Reads of rows do not use
    /// it: a host that restores a partition cannot answer them, but gives its figures.
    without_figures: Mutex<HashMap<String, Instant>>,
    /// The tokens of hosts to which no connection could be made, and until when none is tried.
    unreachable: Mutex<HashMap<String, Instant>>,
    /// By the host's token. Each connection has the time since which it is idle.
    idle: Mutex<HashMap<String, Vec<(Instant, HostConnection)>>>,
}

/// The last known address of a partition's host.
#[derive(Clone)]
struct KnownAddress {
    since: Instant,
    /// None if no host serves the partition, or if the host could not answer.
    address: Option<Arc<ReaderAddress>>,
}

impl LiveHosts {
    /// The hosts of a root.
    pub fn new(root: Arc<Root>, epochs: Arc<FinalEpochs>) -> Self {
        Self {
            root,
            epochs,
            addresses: Mutex::default(),
            without_figures: Mutex::default(),
            unreachable: Mutex::default(),
            idle: Mutex::default(),
        }
    }

    /// Asks the host of a partition for rows of the newest final epoch; none if it cannot answer.
    ///
    /// # Errors
    /// Those of `request` and of [`FinalEpochs::find`].
    pub fn newest<T>(
        &self,
        operator: &OperatorName,
        partition: PartitionId,
        request: impl FnMut(&mut HostConnection) -> FromHost<Option<(ReadEpoch, T)>>,
    ) -> Result<Option<(Epoch, T)>> {
        let Some((at, found)) = self.ask(operator, partition, request)? else {
            return Ok(None);
        };
        if !self.is_decided(operator, partition, at)? {
            self.forget(operator, partition);
            return Ok(None);
        }
        Ok(Some((at.epoch, found)))
    }

    /// Asks each host that serves a partition for its figures.
    ///
    /// # Errors
    /// `Io` or `Restore` if the addresses of the hosts cannot be read.
    pub fn metrics(&self) -> Result<Vec<HostMetrics>> {
        let mut found: HashMap<String, Option<HostMetrics>> = HashMap::new();
        let mut without = self.without_figures.lock().clone();
        without.retain(|_, asked| asked.elapsed() < BELIEVED);
        for (_, _, address) in self.root.readers.all()? {
            if found.contains_key(&address.token) || without.contains_key(&address.token) {
                continue;
            }
            let ask = |connection: &mut HostConnection| connection.metrics(self.epochs.root_id());
            let answer = self.exchange(&address, None, ask).unwrap_or_else(|error| {
                log::debug!("a state host gives no figures: {error}");
                None
            });
            let answer = answer.map(|(connection, metrics)| {
                self.give_back(&address.token, connection);
                metrics
            });
            if answer.is_none() {
                without.insert(address.token.clone(), Instant::now());
            }
            found.insert(address.token.clone(), answer);
        }
        *self.without_figures.lock() = without;
        let mut hosts: Vec<HostMetrics> = found.into_values().flatten().collect();
        hosts.sort_by(|a, b| a.host.cmp(&b.host));
        Ok(hosts)
    }

    /// Asks the host of a partition; none if it cannot answer.
    pub(super) fn ask<T>(
        &self,
        operator: &OperatorName,
        partition: PartitionId,
        request: impl FnMut(&mut HostConnection) -> FromHost<Option<T>>,
    ) -> Result<Option<T>> {
        let Some(address) = self.address(operator, partition) else {
            return Ok(None);
        };
        let answer = self.exchange(&address, None, request)?;
        let answer = answer.and_then(|(connection, answer)| {
            self.give_back(&address.token, connection);
            answer
        });
        if answer.is_none() {
            self.forget(operator, partition);
        }
        Ok(answer)
    }

    /// Sends a request to a host on a connection that is held, on an idle one, or on a new one.
    /// Returns the connection with the answer; none if the host is gone.
    fn exchange<T>(
        &self,
        address: &ReaderAddress,
        held: Option<HostConnection>,
        mut request: impl FnMut(&mut HostConnection) -> FromHost<T>,
    ) -> Result<Option<(HostConnection, T)>> {
        let is_held = held.is_some();
        if let Some(mut connection) = held.or_else(|| self.take_idle(address)) {
            if let Some(answer) = failed(request(&mut connection))? {
                return Ok(Some((connection, answer)));
            }
            // If a held connection has ended, its views have ended, too. An idle connection may
            // have ended before this request, so a new one is made.
            if is_held {
                return Ok(None);
            }
        }
        let Some(mut connection) = self.connect(address)? else {
            return Ok(None);
        };
        let answer = failed(request(&mut connection))?;
        Ok(answer.map(|answer| (connection, answer)))
    }

    /// Makes a connection to a host; none if the host does not answer.
    ///
    /// An attempt at a machine that is down takes long, and the host may serve many partitions. So
    /// after a failure, no read tries the host again for [`BELIEVED`], or for as long as the
    /// attempt took.
    fn connect(&self, address: &ReaderAddress) -> Result<Option<HostConnection>> {
        let started = Instant::now();
        let until = self.unreachable.lock().get(&address.token).copied();
        if until.is_some_and(|until| started < until) {
            return Ok(None);
        }
        let connection = failed(HostConnection::connect(address))?;
        let now = Instant::now();
        let mut unreachable = self.unreachable.lock();
        unreachable.retain(|_, until| now < *until);
        if connection.is_none() {
            let pause = BELIEVED.max(now - started);
            unreachable.insert(address.token.clone(), now + pause);
        }
        Ok(connection)
    }

    /// Whether the chain of a view is the one of the root's decision. A host that stalled during a
    /// rewind has another state.
    fn is_decided(
        &self,
        operator: &OperatorName,
        partition: PartitionId,
        at: ReadEpoch,
    ) -> Result<bool> {
        let decision = self.epochs.find(at.epoch)?;
        let chain = decision
            .as_ref()
            .and_then(|decision| decision.of(operator, partition))
            .map(PartitionDecision::chain);
        Ok(chain == Some(at.chain))
    }

    /// The state of a partition that a reader asks for.
    pub fn target(
        &self,
        operator: &OperatorName,
        partition: PartitionId,
        isolation_level: IsolationLevel,
    ) -> ReadTarget {
        ReadTarget {
            root: self.epochs.root_id().to_owned(),
            operator: operator.clone(),
            partition,
            isolation_level,
        }
    }

    fn address(
        &self,
        operator: &OperatorName,
        partition: PartitionId,
    ) -> Option<Arc<ReaderAddress>> {
        let key = (operator.clone(), partition);
        if let Some(known) = self.believed(&key) {
            return known.address;
        }
        // The user may have the right to read the root, but not the tokens of its hosts.
        let newest = self.root.readers.newest(operator, partition);
        let newest = newest.unwrap_or_else(|error| {
            log::info!("operator {operator}, partition {partition}: no host is asked: {error}");
            None
        });
        self.remember(key, newest.clone());
        newest
    }

    /// Finds the hosts of several partitions with one listing of the root.
    fn find_addresses(&self, operator: &OperatorName, partitions: &[PartitionId]) {
        let keys = partitions
            .iter()
            .map(|partition| (operator.clone(), *partition));
        let unknown: Vec<_> = keys.filter(|key| self.believed(key).is_none()).collect();
        // For a single partition, a listing would cost as much as the read of its address.
        if unknown.len() < 2 {
            return;
        }
        let found = self.root.readers.of_operator(operator);
        let found = found.unwrap_or_else(|error| {
            log::info!("operator {operator}: no host is asked: {error}");
            Vec::new()
        });
        let found: HashMap<PartitionId, Arc<ReaderAddress>> = found
            .into_iter()
            .map(|(_, partition, address)| (partition, address))
            .collect();
        for key in unknown {
            let address = found.get(&key.1).cloned();
            self.remember(key, address);
        }
    }

    /// Makes the next read look the hosts of these partitions up in the root.
    pub(super) fn find_again(&self, operator: &OperatorName, partitions: &[PartitionId]) {
        let mut addresses = self.addresses.lock();
        addresses.retain(|(of, partition), _| of != operator || !partitions.contains(partition));
    }

    /// The last known address of a partition's host, if it is recent.
    fn believed(&self, key: &(OperatorName, PartitionId)) -> Option<KnownAddress> {
        let addresses = self.addresses.lock();
        let known = addresses.get(key)?;
        (known.since.elapsed() < BELIEVED).then(|| known.clone())
    }

    /// Records that a partition's host cannot answer, so that it is not asked again for a while.
    fn forget(&self, operator: &OperatorName, partition: PartitionId) {
        self.remember((operator.clone(), partition), None);
    }

    fn remember(&self, key: (OperatorName, PartitionId), address: Option<Arc<ReaderAddress>>) {
        let known = KnownAddress {
            since: Instant::now(),
            address,
        };
        self.addresses.lock().insert(key, known);
    }

    fn take_idle(&self, address: &ReaderAddress) -> Option<HostConnection> {
        let (_, connection) = self.idle.lock().get_mut(&address.token)?.pop()?;
        Some(connection)
    }

    /// Keeps a connection for the next read; `host` is the host's token.
    fn give_back(&self, host: &str, connection: HostConnection) {
        let mut idle = self.idle.lock();
        // This also drops connections to hosts that have ended.
        idle.retain(|_, connections| {
            connections.retain(|(since, _)| since.elapsed() < IDLE_TIME);
            !connections.is_empty()
        });
        let of_host = idle.entry(host.to_owned()).or_default();
        if of_host.len() < IDLE {
            of_host.push((Instant::now(), connection));
        }
    }
}

#[cfg(test)]
mod tests;
