//! The figures of a host, for readers.

use std::sync::atomic::Ordering;

use holdfast_core::rocks::shared_memory;

use super::Host;
use crate::memory::budget::Budget;
use crate::net::metrics::{HostMetrics, MemoryMetrics};

impl Host {
    /// Returns the figures of the host, and of its partitions of a root.
    pub(crate) fn metrics(&self, root_id: &str) -> HostMetrics {
        let mut states = self.partitions.all();
        let unflushed: u64 = states.iter().map(|state| state.unflushed_bytes()).sum();
        states.retain(|state| state.root().identity.first_id().as_deref() == Some(root_id));
        let partitions = states.iter().map(|state| {
            let mut metrics = state.metrics();
            let path = state.root().path();
            metrics.unused_rows =
                self.reads
                    .counters
                    .unused_rows(path, &metrics.operator, metrics.partition);
            metrics
        });
        let part = |name: &str, held: u64, limit: usize| MemoryMetrics {
            part: name.to_owned(),
            held,
            limit: u64::try_from(limit).ok().filter(|_| limit != usize::MAX),
            spills: 0,
        };
        let budget = |name: &str, budget: &Budget| MemoryMetrics {
            spills: budget.spills(),
            ..part(name, budget.held() as u64, budget.limit())
        };
        HostMetrics {
            host: self.identity.id.0.clone(),
            connections: self.reads.counters.connections.load(Ordering::Relaxed),
            sessions: self.reads.counters.sessions.load(Ordering::Relaxed),
            memory: vec![
                budget("sorting", self.memory.sorting()),
                budget("uncommitted", self.memory.uncommitted()),
                budget("reads", self.memory.reads()),
                part("write_buffers", unflushed, shared_memory().write_buffers),
            ],
            reads: self.reads.counters.reads(),
            partitions: partitions.collect(),
        }
    }
}
