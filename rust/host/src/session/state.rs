//! The place of a session's state.

use std::sync::Arc;

use crate::host::request::QueryEpoch;
use crate::protocol::RunNumber;
use crate::root::Root;

/// Where a session's state is.
pub enum SessionState {
    /// A database in a temporary folder, which is removed with the session.
    Scratch,
    /// A partition of a query's operator. Its changes are staged in a root.
    Persistent(PersistentState),
}

/// The epoch of a root that a session stages, and the run that stages it.
pub struct PersistentState {
    pub root: Arc<Root>,
    pub run: RunNumber,
    pub query: QueryEpoch,
}
