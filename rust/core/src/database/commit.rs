//! Commit: what a transaction staged, its offsets, positions and stream times, in one atomic write.

use super::open_transaction::Open;
use super::spilled::Next;
use super::{Committed, Database, Entry, Store, metadata};
use crate::error::{Error, ErrorKind, Result};
use crate::expiry::ExpiryFilter;
use crate::offset::OffsetChange;
use crate::position::Position;
use crate::store::windowed;
use crate::transaction::{
    Base, Batch, LatestRows, MemoryTable, Place, StoreState, Table, Transaction,
};
use std::sync::Arc;
use std::time::Instant;

/// What is committed beside a transaction's data.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// Changelog offsets.
    pub offsets: OffsetChange,
    /// Small values by name; see [`Database::property`].
    pub properties: Vec<(String, Vec<u8>)>,
}

impl Database {
    /// Commits a private transaction: data, offsets, stream times and properties enter the database
    /// in one atomic write and are visible to every view taken from then on.
    ///
    /// # Errors
    /// `InvalidState` if something else was committed since the transaction began, if a part of a
    /// write that failed is staged in it, or while a commit that was interrupted waits for its end;
    /// `InvalidValue` for a topic with a NUL character in it. After a failed write nothing has
    /// changed, unless the error came after the fact; [`Database::committed_offset`] says so then.
    pub fn commit_transaction(&self, tx: Transaction, commit: Commit) -> Result<()> {
        self.rocks.check_owner()?;
        self.reclaimer.log();
        let mut open = self.open.lock();
        open.check_finished(self.path())?;
        let _published = self.publish_open(&mut open);
        self.commit_locked(&mut open, tx, &commit, None)?;
        // The database's own transaction, if it holds nothing, goes on from here.
        open.forget_if_empty();
        Ok(())
    }

    /// Writes the transaction; the caller holds the writer's lock. The offsets are those of one
    /// store, or of all.
    pub(super) fn commit_locked(
        &self,
        open: &mut Open,
        mut tx: Transaction,
        commit: &Commit,
        store: Option<&str>,
    ) -> Result<()> {
        let started = Instant::now();
        tx.check_not_poisoned().map_err(|e| e.path(self.path()))?;
        let last = self.committed.read().clone();
        if !Arc::ptr_eq(tx.base().committed(), &last.base) {
            return Err(Error::new(
                ErrorKind::InvalidState,
                "something else was committed since this transaction began; begin another one and \
                 repeat the work",
            )
            .path(self.path()));
        }
        if tx.has_spilled() {
            // All of a table's rows in one place. What is left then is of stores in memory or
            // without transactions.
            tx.spill()?;
        }
        let spilled = tx.base().spilled().cloned();
        let mut batch = Batch::with_capacity(tx.uncommitted_bytes());
        let mut memory = last.base.memory().to_vec();
        let in_memory = self.push_rows(&mut tx, |_| true, &mut batch, &mut memory);
        self.push_stream_times(&tx, |_| true, &mut batch);
        for (name, value) in &commit.properties {
            batch.push(self.metadata.id, &metadata::property_key(name), Some(value));
        }
        self.push_offsets(&commit.offsets, store, &mut batch)?;
        if let Some(restored) = store
            && self.is_lost(restored, &tx)?
        {
            batch.push(self.metadata.id, &metadata::lost_key(restored), None);
        }
        let position = tx.position();
        for (tp, offset) in tx.observed().offsets() {
            // An offset below the committed one changes nothing, and `position` says so.
            let offset = position.get(tp).unwrap_or(offset);
            batch.push(
                self.metadata.id,
                &metadata::position_key(tp)?,
                Some(&offset.0.to_be_bytes()),
            );
        }
        if position != *last.base.position() {
            // They take no part in what the positions say from now on.
            for store in &self.absent {
                batch.push(self.metadata.id, &metadata::lost_key(store), Some(&[]));
            }
        }
        let mut states = std::mem::take(&mut tx.stores);
        drop((tx, last.base));
        // A stream time may move without a row.
        let has_moved = states.iter().any(|state| state.changed);
        if batch.is_empty() && !in_memory && !has_moved && spilled.is_none() {
            return Ok(());
        }
        for state in &mut states {
            state.changed = false;
        }
        match spilled {
            Some(rows) => self.commit_spilled(
                open,
                &rows,
                batch,
                Next {
                    memory,
                    states,
                    position,
                },
            )?,
            None => self.write_and_publish(&mut batch, memory, states, position)?,
        }
        self.counts.commits.add(started.elapsed());
        Ok(())
    }

    /// Writes what is staged for the stores without transactions, which then is committed: they do
    /// not wait. To be called after each write call, with the database's own transaction.
    ///
    /// # Errors
    /// After a failed write the stores are unchanged, and the transaction can only be rolled back.
    pub fn write_through(&self, tx: &mut Transaction) -> Result<()> {
        if !self.stores.iter().any(Entry::is_direct) {
            return Ok(());
        }
        let last = self.committed.read().clone();
        let mut batch = Batch::with_capacity(0);
        let mut memory = last.base.memory().to_vec();
        let in_memory = self.push_rows(tx, Entry::is_direct, &mut batch, &mut memory);
        self.push_stream_times(tx, Entry::is_direct, &mut batch);
        if batch.is_empty() && !in_memory {
            return Ok(());
        }
        let _published = self.publish_before_write_through(tx, &last.states);
        let mut states = last.states;
        for ((entry, own), committed) in self.stores.iter().zip(&mut tx.stores).zip(&mut states) {
            if entry.is_direct() {
                own.changed = false;
                *committed = *own;
            }
        }
        let position = last.base.position().clone();
        drop(last.base);
        self.write_and_publish(&mut batch, memory, states, position)
            .inspect_err(|error| tx.poison(error))?;
        tx.rebase(Arc::clone(&self.committed.read().base));
        Ok(())
    }

    fn write_and_publish(
        &self,
        batch: &mut Batch,
        memory: Vec<MemoryTable>,
        states: Vec<StoreState>,
        position: Position,
    ) -> Result<()> {
        let before = self.rocks.last_write();
        let written = if batch.is_empty() {
            Ok(())
        } else {
            self.rocks.write(batch)
        };
        match written {
            Ok(()) => self.publish(memory, states, position, batch.len()),
            Err(error) => {
                // It may have taken place all the same. Then the next transaction goes on from it,
                // as it would after a reopen, and not from a state that the database has left
                // behind.
                if self.rocks.find_last_write().is_ok_and(|now| now > before) {
                    self.publish(memory, states, position, 0)?;
                }
                Err(error)
            }
        }
    }

    /// Makes a written commit what new views see.
    pub(super) fn publish(
        &self,
        memory: Vec<MemoryTable>,
        states: Vec<StoreState>,
        position: Position,
        bytes: usize,
    ) -> Result<()> {
        let files = self.rocks.snapshot().map_err(|error| {
            let words = format!(
                "the commit is in the files, but they cannot be read on ({error}); close the \
                 database and open it again"
            );
            Error::new(error.kind(), words).path(self.path())
        })?;
        let committed = Committed {
            base: Base::new(files, memory, position),
            states,
        };
        // Who has seen the new commit must not see the state before it from then on.
        self.uncommitted.withdraw();
        *self.committed.write() = committed.clone();
        if let Err(error) = self.advance_horizons(&committed, bytes) {
            log::warn!(
                "{}: expiry is put off to a later commit: {error}",
                self.path().display()
            );
        }
        Ok(())
    }

    /// Hands all staged rows of some stores over: those of files to the batch, family by family,
    /// each sorted by key (the memtable's insertion hint lives on that order), those in memory to
    /// their tables. True if there were any of the latter.
    fn push_rows(
        &self,
        tx: &mut Transaction,
        stores: impl Fn(&Entry) -> bool,
        batch: &mut Batch,
        memory: &mut [MemoryTable],
    ) -> bool {
        let mut in_memory = false;
        for entry in self.stores.iter().filter(|entry| stores(entry)) {
            if let Store::Versioned(store, horizon) = &entry.store {
                let (versions, latest) = store.tables();
                match (versions.place, latest.place) {
                    (Place::Memory(of_versions), Place::Memory(of_latest)) => {
                        in_memory |= tx.is_staged(versions);
                        let mut filter = ExpiryFilter::new(horizon.get());
                        tx.move_latest_to_memory(versions, latest, &mut memory[of_latest]);
                        tx.move_to_memory(versions, &mut memory[of_versions], &mut |row| {
                            filter.expired(row)
                        });
                    }
                    _ => push_versions(tx, versions, latest, batch),
                }
                continue;
            }
            for table in entry.store.tables() {
                match table.place {
                    Place::Files(_) => {
                        tx.drain_cleared(table, batch);
                        tx.drain(table, |_, encoded| {
                            Transaction::push_encoded(batch, encoded)
                        });
                    }
                    Place::Memory(number) => {
                        in_memory |= tx.is_staged(table);
                        let horizon = entry.store.expiry().map(|expiry| expiry.horizon.get());
                        let mut expired = |row: &[u8]| {
                            horizon
                                .is_some_and(|horizon| windowed::expired(table.kind, row, horizon))
                        };
                        tx.move_to_memory(table, &mut memory[number], &mut expired);
                    }
                }
            }
        }
        in_memory
    }

    fn push_stream_times(
        &self,
        tx: &Transaction,
        stores: impl Fn(&Entry) -> bool,
        batch: &mut Batch,
    ) {
        for (entry, state) in self
            .stores
            .iter()
            .zip(&tx.stores)
            .filter(|(entry, _)| entry.spec.persistent && stores(entry))
        {
            if let (true, Some(time)) = (state.changed, state.stream_time) {
                batch.push(
                    self.metadata.id,
                    &metadata::stream_time_key(&entry.spec.name),
                    Some(&time.to_be_bytes()),
                );
            }
            if state.changed && state.sequence > 0 {
                batch.push(
                    self.metadata.id,
                    &metadata::sequence_key(&entry.spec.name),
                    Some(&state.sequence.to_be_bytes()),
                );
            }
        }
    }
}

/// The rows of a versioned store in files, and then the `latest` rows that they make: two families
/// in turns would push each other's nodes out of the processor's cache.
fn push_versions(tx: &mut Transaction, versions: Table, latest: Table, batch: &mut Batch) {
    let (mut newest, mut rows) = (
        Batch::with_capacity(tx.table_bytes(versions)),
        LatestRows::default(),
    );
    tx.drain(versions, |version, encoded| {
        Transaction::push_encoded(batch, encoded);
        if let Some((key, value)) = rows.of(version) {
            newest.push_parts(latest.family_id(), key, &value);
        }
    });
    batch.append(&newest);
}
