//! Commits a transaction: staged rows, offsets, positions and stream times, in one atomic write.

use crate::database::database::Database;
use crate::database::rows::keys;
use crate::database::stores::StoreEntry;
use crate::database::transactions::committed::{Committed, NextCommit};
use crate::database::transactions::writer::{SpilledCommit, Writer};
use crate::error::{Error, ErrorKind, Result};
use crate::offset::OffsetChange;
use crate::transaction::{Batch, Transaction};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// What is committed with a transaction's data.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// Changelog offsets.
    pub offsets: OffsetChange,
    /// Small values by name; see [`Database::property`].
    pub properties: Vec<(String, Vec<u8>)>,
}

impl Commit {
    /// A commit with offsets and no properties.
    pub(in crate::database) fn of(offsets: OffsetChange) -> Self {
        Self {
            offsets,
            properties: Vec::new(),
        }
    }
}

impl Database {
    /// Commits a private transaction: data, offsets, stream times and properties are written
    /// atomically. Every later view has them.
    ///
    /// After an error, [`Database::committed_offset`] shows whether the write was done. If it was
    /// not, nothing has changed. If the commit of a spilled transaction was interrupted, call
    /// [`Database::recover`] first: it ends the commit.
    ///
    /// # Errors
    /// `InvalidState` if there was another commit since the transaction began, or if a part of a
    /// failed write is staged in it; `InvalidValue` for a topic with a NUL character in it. If an
    /// interrupted commit is not ended yet, this call ends it first.
    pub fn commit_transaction(&self, tx: Transaction, commit: Commit) -> Result<()> {
        self.rocks.check_owner()?;
        self.reclaimer.log();
        let mut writer = self.transactions.writer.lock();
        // An interrupted commit ends here: the caller of private transactions has no rollback() for
        // it.
        self.finish(&mut writer)?;
        let _published = self.publish_writer(&mut writer);
        self.commit_locked(&mut writer, tx, &commit)?;
        if commit.offsets.moves() {
            self.stores.note_offsets();
        }
        // If the database's own transaction is empty, it begins again from this commit.
        writer.forget_if_empty();
        Ok(())
    }

    /// Commits a transaction; the caller holds the writer's lock.
    pub(in crate::database) fn commit_locked(
        &self,
        writer: &mut Writer,
        tx: Transaction,
        commit: &Commit,
    ) -> Result<()> {
        self.commit_rows(writer, tx, Batch::with_capacity(0), commit, None)
    }

    /// As `commit_locked`, with the rows that `batch` has beside those of the transaction. The
    /// offsets are those of `store` (the store that is being restored), or of all stores.
    pub(in crate::database) fn commit_rows(
        &self,
        writer: &mut Writer,
        mut tx: Transaction,
        mut batch: Batch,
        commit: &Commit,
        store: Option<&str>,
    ) -> Result<()> {
        let started = Instant::now();
        tx.check_not_poisoned().map_err(|e| e.path(self.path()))?;
        let last = self.last_commit();
        self.check_not_overtaken(&tx, &last)?;
        if tx.has_spilled() {
            // A table's rows must be either all spilled or all staged. After this, only stores in
            // memory or without transactions have staged rows.
            tx.spill()?;
        }
        let spilled = tx.base().spilled().cloned();
        batch.reserve(self.staged_bytes(&tx));
        let mut memory = last.base.memory().to_vec();
        let in_memory = self.push_rows(&mut tx, |_| true, &mut batch, &mut memory);
        self.push_stream_times(&tx, |_| true, &mut batch);
        for (name, value) in &commit.properties {
            batch.push(
                self.families.metadata.id,
                &keys::property_key(name),
                Some(value),
            );
        }
        self.push_offsets(&commit.offsets, store, &mut batch)?;
        let position = tx.position();
        if let Some(restored) = store
            && tx.observed().reaches(&position)
            && self.is_lost(restored, &tx)?
        {
            batch.push(self.families.metadata.id, &keys::lost_key(restored), None);
        }
        for (tp, offset) in tx.observed().offsets() {
            // An offset below the committed one changes nothing: `position` has the greater one.
            let offset = position.get(tp).unwrap_or(offset);
            batch.push(
                self.families.metadata.id,
                &keys::position_key(tp)?,
                Some(&offset.0.to_be_bytes()),
            );
        }
        if position != *last.base.position() {
            // These stores lack the writes up to the new positions.
            for store in &self.stores.absent {
                batch.push(self.families.metadata.id, &keys::lost_key(store), Some(&[]));
            }
        }
        let mut states = std::mem::take(&mut tx.stores);
        drop((tx, last.base));
        // A stream time may advance without a row.
        let has_moved = states.iter().any(|state| state.changed);
        if batch.is_empty() && !in_memory && !has_moved && spilled.is_none() {
            return Ok(());
        }
        for state in &mut states {
            state.changed = false;
        }
        let next = NextCommit {
            memory,
            states,
            position,
        };
        match spilled {
            Some(rows) => {
                let id = self.rocks.last_write() + 1;
                let moves_offsets = store.is_none() && commit.offsets.moves();
                let commit = SpilledCommit::new(id, next, moves_offsets);
                self.commit_spilled(writer, &rows, batch, commit)?;
            }
            None => self.write_and_publish(&mut batch, next)?,
        }
        self.counts.commits.add(started.elapsed());
        Ok(())
    }

    /// Fails if there was another commit since a transaction began.
    fn check_not_overtaken(&self, tx: &Transaction, last: &Committed) -> Result<()> {
        if Arc::ptr_eq(tx.base().committed(), &last.base) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::InvalidState,
            "another commit was made since this transaction began; begin a new transaction and \
             repeat the work",
        )
        .path(self.path()))
    }

    /// Writes and commits what is staged for the stores without transactions. Called after each
    /// write call, with the database's own transaction.
    ///
    /// # Errors
    /// `InvalidState` if there was another commit since the transaction began. After a failed write
    /// the transaction can only be rolled back; the write may have been done.
    pub fn write_through(&self, tx: &mut Transaction) -> Result<()> {
        if !self.stores.entries.iter().any(StoreEntry::is_direct) {
            return Ok(());
        }
        let last = self.last_commit();
        let mut batch = Batch::with_capacity(0);
        let mut memory = last.base.memory().to_vec();
        let states = self.stores.entries.iter().zip(&tx.stores);
        let written: Vec<&StoreEntry> = states
            .filter(|(entry, state)| entry.is_direct() && entry.is_changed(tx, **state))
            .map(|(entry, _)| entry)
            .collect();
        let in_memory = self.push_rows(tx, StoreEntry::is_direct, &mut batch, &mut memory);
        self.push_stream_times(tx, StoreEntry::is_direct, &mut batch);
        if batch.is_empty() && !in_memory {
            return Ok(());
        }
        // The transaction continues from this write, so it must be based on the last commit.
        self.check_not_overtaken(tx, &last)
            .inspect_err(|error| tx.poison(error))?;
        for entry in written {
            // Even if the write returns an error, it may have been done.
            entry.written.store(true, Ordering::Relaxed);
        }
        let _published = self.publish_before_write_through(tx, &last.states);
        let mut states = last.states;
        let stores = self.stores.entries.iter().zip(&mut tx.stores);
        for ((entry, state), committed) in stores.zip(&mut states) {
            if entry.is_direct() {
                state.changed = false;
                *committed = *state;
            }
        }
        let position = last.base.position().clone();
        drop(last.base);
        let next = NextCommit {
            memory,
            states,
            position,
        };
        self.write_and_publish(&mut batch, next)
            .inspect_err(|error| tx.poison(error))?;
        tx.rebase(self.base());
        Ok(())
    }
}
