//! Where the rows of a read come from.

use std::sync::Arc;
use std::time::Duration;

use super::live::PinnedViews;
use super::read_from::AnswerState;
use crate::protocol::EpochDecision;

/// Where the rows of a read come from, all of one epoch.
pub(super) struct ReadSource {
    pub(super) state: AnswerState,
    /// The decision of the epoch when the read began. After a rewind, the epoch may have another
    /// one.
    pub(super) decision: Arc<EpochDecision>,
    /// None: the reader reads its own copies.
    pub(super) views: Option<PinnedViews>,
    /// How long to wait for room for a copy.
    pub(super) timeout: Duration,
}

impl ReadSource {
    /// Releases the views of hosts, and keeps the connections for the next read.
    pub(super) fn release(self) {
        if let Some(views) = self.views {
            views.release();
        }
    }
}
