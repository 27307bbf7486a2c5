//! Hosts that did not answer.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::protocol::HostId;

/// How long a host that did not answer counts as unreachable without another attempt.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Hosts that recently did not answer a worker.
///
/// They are remembered for a while. Otherwise every task of a lost machine's partitions would wait
/// for that machine. A host that refuses the workers of one root may serve those of another, so
/// unreachable hosts are recorded for each root.
#[derive(Default)]
pub struct UnreachableHosts {
    /// When each host was reported for a root, and the reported reason.
    hosts: Mutex<HashMap<(PathBuf, HostId), (Instant, String)>>,
}

impl UnreachableHosts {
    /// Adds a worker's reports, and returns all hosts that count as unreachable for the root, with
    /// the reason.
    pub fn merge(
        &self,
        root: &Path,
        reported: &HashMap<HostId, String>,
    ) -> HashMap<HostId, String> {
        let mut hosts = self.hosts.lock();
        hosts.retain(|_, (reported_at, _)| reported_at.elapsed() < REMEMBERED);
        hosts.extend(reported.iter().map(|(host, reason)| {
            let key = (root.to_owned(), host.clone());
            (key, (Instant::now(), reason.clone()))
        }));
        hosts
            .iter()
            .filter(|((of, _), _)| of == root)
            .map(|((_, host), (_, reason))| (host.clone(), reason.clone()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_that_refuses_workers_of_one_root_is_reachable_for_another() {
        let unreachable = UnreachableHosts::default();
        let host = HostId("host".to_owned());
        let reported = HashMap::from([(host.clone(), "it refuses the proof".to_owned())]);
        let (one, other) = (Path::new("one"), Path::new("other"));
        assert!(unreachable.merge(one, &reported).contains_key(&host));
        assert!(unreachable.merge(other, &HashMap::new()).is_empty());
        assert!(unreachable.merge(one, &HashMap::new()).contains_key(&host));
    }
}
