//! What a host knows of the other hosts: which ones did not answer, which host serves which
//! partition, which partitions this host takes over, and which workers of other executors may open
//! sessions here.

mod placement;
mod planned_moves;
mod unreachable;
mod writable_root;
mod writers;

pub use placement::Placement;
pub use planned_moves::{PlannedMove, PlannedMoves};
pub use unreachable::UnreachableHosts;
pub use writable_root::WritableRoot;
pub use writers::{ProvenWriter, Writers};

/// What a host knows of the other hosts.
#[derive(Default)]
pub struct OtherHosts {
    /// Hosts that did not answer.
    pub unreachable: UnreachableHosts,
    /// Which host serves which partition.
    pub placement: Placement,
    /// The partitions that this host takes over from live hosts.
    pub moves: PlannedMoves,
    /// Which of their workers may open sessions here.
    pub writers: Writers,
}
