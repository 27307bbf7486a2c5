//! Hosts that did not answer.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::protocol::HostId;

/// How long a host that did not answer counts as unreachable without another attempt.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Hosts that recently did not answer a worker.
///
/// They are remembered for a while. Otherwise every task of a lost machine's partitions would wait
/// for that machine.
#[derive(Default)]
pub struct UnreachableHosts {
    /// When each host was reported, and how the failure showed.
    hosts: Mutex<HashMap<HostId, (Instant, String)>>,
}

impl UnreachableHosts {
    /// Adds a worker's reports, and returns all hosts that count as unreachable, with the reason.
    pub fn merge(&self, reported: &HashMap<HostId, String>) -> HashMap<HostId, String> {
        let mut hosts = self.hosts.lock();
        hosts.retain(|_, (reported_at, _)| reported_at.elapsed() < REMEMBERED);
        hosts.extend(
            reported
                .iter()
                .map(|(host, reason)| (host.clone(), (Instant::now(), reason.clone()))),
        );
        hosts
            .iter()
            .map(|(host, (_, reason))| (host.clone(), reason.clone()))
            .collect()
    }
}
