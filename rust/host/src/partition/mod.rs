//! A partition's database. It stays open between epochs, and each session first advances it to the
//! epoch before the session's.
//!
//! [`PartitionState`] is the database of one partition on this host (`state.rs`). A session asks
//! for a [`StateView`] with a [`ViewRequest`]. `advance.rs` then takes the steps that the protocol
//! requires: it opens the local database (`local/`), replays the log into it (`replay.rs`), or
//! makes a new one from a snapshot in the root (`restore.rs`). `snapshot.rs` takes those snapshots.

mod advance;
mod epochs;
mod local;
mod metrics;
mod progress;
mod read_view;
mod replay;
mod restore;
mod snapshot;
mod snapshot_history;
mod state;
mod view;
mod view_request;

use std::time::Duration;

pub use epochs::{
    DecidedEpoch, PreparedEpoch, StagedEpoch, StagedEpochs, StagedSource, apply_object,
    not_evaluated,
};
pub(crate) use local::position;
pub use read_view::ReadView;
pub use state::PartitionState;
pub use view::StateView;
pub use view_request::{FlushPolicy, SnapshotPolicy, ViewRequest};

/// How long a staged epoch stays in memory after a reader has last used it.
pub const STAGE_IDLE: Duration = Duration::from_secs(10);
