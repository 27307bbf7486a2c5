//! A session's view of the state.

use std::sync::Arc;

use holdfast_core::{Database, Result, Transaction};

use super::local::position;
use crate::memory::budget::{Budget, MIN_TRANSACTION_BYTES, Share};
use crate::protocol::Digest;
use crate::root::OffsetsFile;

/// A session's private view of the state at the previous epoch.
pub struct StateView {
    /// The database.
    pub db: Arc<Database>,
    /// The session's writes over a pinned view of the database.
    pub transaction: Transaction,
    /// The memory that the transaction may use.
    pub memory: Share,
    /// The chain's digest before the session's epoch.
    pub base: Digest,
    /// Spark's offsets of the session's epoch; none in a scratch session.
    pub offsets: Option<OffsetsFile>,
}

impl StateView {
    /// Opens a view of the last commit of a database.
    ///
    /// `memory`: the budget of staged changes. `offsets`: Spark's offsets of the session's epoch.
    ///
    /// # Errors
    /// `StoreClosed`, and `StoreCorrupted` for a chain that is not a digest.
    pub fn new(
        db: Arc<Database>,
        memory: &Arc<Budget>,
        offsets: Option<OffsetsFile>,
    ) -> Result<Self> {
        let (mut transaction, base, mut memory) =
            (db.begin()?, position::chain(&db)?, memory.share());
        let room = memory.room().max(MIN_TRANSACTION_BYTES);
        transaction.limit_memory(room);
        // Sessions that open meanwhile have the rest. At the end of this session its share is set
        // to what it used.
        memory.reserve(room.min(db.uncommitted_max_bytes().try_into().unwrap_or(0)));
        Ok(Self {
            db,
            transaction,
            memory,
            base,
            offsets,
        })
    }
}
