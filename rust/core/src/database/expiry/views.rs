//! How far back history must be retained: to the oldest view in use, and to the oldest state that a
//! crash can restore.

use crate::database::transactions::committed::Committed;
use crate::transaction::{Base, StoreState};
use std::sync::{Arc, Weak};

/// The commits that readers still use, and the stream times that a crash cannot undo.
#[derive(Default)]
pub(in crate::database) struct Views {
    pub(super) alive: Vec<(Weak<Base>, Vec<StoreState>)>,
    pub(super) durable: Vec<StoreState>,
    /// The number of the commit at which a flush was requested, and the states of that commit.
    pub(super) flushing: Option<(u64, Vec<StoreState>)>,
    pub(super) bytes_since_flush: u64,
}

impl Views {
    /// Starts with the commit that the open found.
    pub(in crate::database) fn new(found: &Committed) -> Self {
        let alive = vec![(Arc::downgrade(&found.base), found.states.clone())];
        Self {
            alive,
            durable: found.states.clone(),
            ..Self::default()
        }
    }

    /// Records that these states are in files.
    pub(in crate::database) fn flushed(&mut self, states: Vec<StoreState>) {
        self.durable = states;
        self.flushing = None;
        self.bytes_since_flush = 0;
    }
}
