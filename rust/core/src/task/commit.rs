//! Commit: what a transaction staged, its offsets and stream times, in one atomic write.

use super::{Committed, Store, Task, metadata};
use crate::error::{Error, ErrorKind, Result};
use crate::offset::OffsetChange;
use crate::store::versioned::push_latest;
use crate::transaction::{Batch, TIME_BYTES, Transaction};
use std::sync::Arc;
use std::time::Instant;

/// What is committed beside a transaction's data.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// Changelog offsets.
    pub offsets: OffsetChange,
    /// Small values by name; see [`Task::property`].
    pub properties: Vec<(String, Vec<u8>)>,
}

impl Task {
    /// Commits a private transaction: data, offsets, stream times and properties enter the database in one atomic write and
    /// are visible to every view taken from then on.
    ///
    /// # Errors
    /// `InvalidState` if something else was committed since the transaction began. After a failed write nothing has changed.
    pub fn commit_transaction(&self, tx: Transaction, commit: Commit) -> Result<()> {
        let mut open = self.open.lock();
        self.commit_locked(tx, &commit)?;
        // The task's own transaction, if it holds nothing, goes on from here.
        open.forget_if_empty();
        Ok(())
    }

    /// Writes the transaction; the caller holds the writer's lock.
    pub(super) fn commit_locked(&self, mut tx: Transaction, commit: &Commit) -> Result<()> {
        let started = Instant::now();
        if !Arc::ptr_eq(tx.snapshot(), &self.committed.read().snapshot) {
            return Err(Error::new(
                ErrorKind::InvalidState,
                "something else was committed since this transaction began; begin another one and repeat the work",
            )
            .path(self.path()));
        }
        let mut batch = Batch::with_capacity(tx.uncommitted_bytes());
        self.push_rows(&mut tx, &mut batch);
        self.push_metadata(&tx, commit, &mut batch)?;
        let mut states = std::mem::take(&mut tx.stores);
        drop(tx);
        if batch.is_empty() {
            return Ok(());
        }
        let wire = batch.finish();
        let bytes = wire.len();
        self.database.write(wire)?;
        for state in &mut states {
            state.changed = false;
        }
        let committed = Committed { snapshot: self.database.snapshot()?, states };
        *self.committed.write() = committed.clone();
        self.counters.commit(started.elapsed());
        // The commit is done: an error would say that it is not.
        if let Err(error) = self.advance_horizons(&committed, bytes) {
            log::warn!("{}: expiry is put off to a later commit: {error}", self.path().display());
        }
        Ok(())
    }

    /// All staged rows, family by family, each sorted by key: the memtable's insertion hint lives on that order, and two
    /// families in turns would push each other's nodes out of the processor's cache.
    fn push_rows(&self, tx: &mut Transaction, batch: &mut Batch) {
        for entry in &self.stores {
            match &entry.store {
                Store::Versioned(store, _) => {
                    let (versions, latest) = store.tables();
                    let mut part: Vec<u8> = Vec::new();
                    let mut newest = Batch::with_capacity(tx.table_bytes(versions));
                    tx.drain(versions, |version, encoded| {
                        Transaction::push_encoded(batch, encoded);
                        // Newest first: a key's first row is its newest staged version.
                        let this = &version.key[..version.key.len() - TIME_BYTES];
                        if this != part {
                            part.clear();
                            part.extend_from_slice(this);
                            if version.newest {
                                push_latest(&mut newest, latest.family.id, version);
                            }
                        }
                    });
                    batch.append(&newest);
                }
                store => {
                    for table in store.tables() {
                        tx.drain(table, |_, encoded| Transaction::push_encoded(batch, encoded));
                    }
                }
            }
        }
    }

    fn push_metadata(&self, tx: &Transaction, commit: &Commit, batch: &mut Batch) -> Result<()> {
        for (entry, state) in self.stores.iter().zip(&tx.stores) {
            if let (true, Some(time)) = (state.changed, state.stream_time) {
                batch.push(self.metadata.id, &metadata::stream_time_key(&entry.spec.name), Some(&time.to_be_bytes()));
            }
            if state.changed && state.sequence > 0 {
                batch.push(self.metadata.id, &metadata::sequence_key(&entry.spec.name), Some(&state.sequence.to_be_bytes()));
            }
        }
        for (name, value) in &commit.properties {
            batch.push(self.metadata.id, &metadata::property_key(name), Some(value));
        }
        match &commit.offsets {
            OffsetChange::Keep => {}
            OffsetChange::Forget => {
                for (tp, _) in self.committed_offsets()? {
                    batch.push(self.offsets.id, &metadata::offset_key(&tp)?, None);
                }
            }
            OffsetChange::Set(offsets) => {
                for (tp, offset) in offsets {
                    let value = offset.map(|offset| offset.0.to_be_bytes());
                    batch.push(self.offsets.id, &metadata::offset_key(tp)?, value.as_ref().map(|v| v.as_slice()));
                }
            }
        }
        Ok(())
    }
}
