//! A reader's own copies of partitions.

mod replica;
mod replicas;

pub use replica::{ReplicaSource, ReplicaView};
pub use replicas::{Replicas, SharedReplica};
