//! A reader's own copies of partitions.

mod old_copies;
mod replica;
mod replicas;

pub use old_copies::SharedReplica;
pub use replica::ReplicaSource;
pub use replicas::Replicas;
