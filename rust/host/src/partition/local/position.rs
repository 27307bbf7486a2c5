//! The position of a local database: last epoch, chain and query, written with each epoch's
//! changes.

use holdfast_core::{
    Commit, Database, Error, ErrorKind, Offset, OffsetChange, Result, TopicPartition,
};

use crate::protocol::{Digest, Epoch, PartitionId};
use crate::root::SnapshotId;

/// The topic whose offset is the last epoch in the database.
const LOG: &str = "log";
/// The chain's digest after that epoch.
const CHAIN: &str = "chain";
/// The query, since several roots may share a local directory.
const QUERY: &str = "query";

/// Returns the last epoch in the database; none if it has none.
pub fn applied(db: &Database, partition: PartitionId) -> Result<Option<Epoch>> {
    Ok(db
        .committed_offset(&topic(partition))?
        .map(|offset| Epoch(offset.0)))
}

/// Returns the chain's digest after the last epoch in the database.
///
/// # Errors
/// `StoreCorrupted` for a property that is not a digest.
pub fn chain(db: &Database) -> Result<Digest> {
    let Some(bytes) = db.property(CHAIN)? else {
        return Ok(Digest::ZERO);
    };
    let bytes = bytes.try_into().map_err(|bytes: Vec<u8>| {
        let text = format!(
            "the database's chain digest has {} bytes instead of 16; delete the directory, a new \
             database is made",
            bytes.len()
        );
        Error::new(ErrorKind::StoreCorrupted, text).path(db.path())
    })?;
    Ok(Digest(bytes))
}

/// Returns the id of the query whose state the database holds; none before the first commit.
pub fn query(db: &Database) -> Result<Option<Vec<u8>>> {
    db.property(QUERY)
}

/// Returns whether the database has the query, epoch and chain that a snapshot's name says.
pub fn holds(db: &Database, query_id: &str, id: &SnapshotId) -> Result<bool> {
    let is_ours = query(db)?.is_some_and(|query| query == query_id.as_bytes());
    Ok(is_ours && applied(db, id.partition)? == Some(id.epoch) && chain(db)? == id.chain)
}

/// Returns the commit that moves the database to `epoch`, in the same write as its changes.
pub fn commit(query_id: &str, partition: PartitionId, epoch: Epoch, chain: Digest) -> Commit {
    Commit {
        offsets: OffsetChange::Set(vec![(topic(partition), Some(Offset(epoch.0)))]),
        properties: vec![
            (CHAIN.to_owned(), chain.0.to_vec()),
            (QUERY.to_owned(), query_id.as_bytes().to_vec()),
        ],
    }
}

fn topic(partition: PartitionId) -> TopicPartition {
    TopicPartition {
        topic: LOG.to_owned(),
        partition: partition.0,
    }
}
