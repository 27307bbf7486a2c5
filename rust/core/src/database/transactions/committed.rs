//! The last commit, and the one that replaces it.

use crate::position::Position;
use crate::transaction::{Base, MemoryTable, StoreState};
use std::sync::Arc;

/// The last commit, on which new transactions begin.
#[derive(Clone)]
pub(in crate::database) struct Committed {
    pub(in crate::database) base: Arc<Base>,
    pub(in crate::database) states: Vec<StoreState>,
}

/// The part of the next commit that the database holds in memory.
#[derive(Clone)]
pub(in crate::database) struct NextCommit {
    pub(in crate::database) memory: Vec<MemoryTable>,
    pub(in crate::database) states: Vec<StoreState>,
    pub(in crate::database) position: Position,
}
