//! What a host knows of the other hosts: which ones did not answer, which host serves which
//! partition, and which partitions this host takes over.

mod placement;
mod planned_moves;
mod unreachable;

pub use placement::Placement;
pub use planned_moves::{PlannedMove, PlannedMoves};
pub use unreachable::UnreachableHosts;

/// What a host knows of the other hosts.
#[derive(Default)]
pub struct OtherHosts {
    /// Hosts that did not answer.
    pub unreachable: UnreachableHosts,
    /// Which host serves which partition.
    pub placement: Placement,
    /// The partitions that this host takes over from live hosts.
    pub moves: PlannedMoves,
}
