//! The database's own transaction, its readers, and the calls on it.

pub(super) mod committed;
pub(super) mod open_transaction;
pub(super) mod read_uncommitted;
pub(super) mod restore;
pub(super) mod uncommitted;
pub(super) mod write;
pub(super) mod writer;
