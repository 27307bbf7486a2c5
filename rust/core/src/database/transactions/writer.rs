//! The state of the database's own transaction, and its transitions.
//!
//! ```text
//! Idle ── begin ──> Active ── take, discard, forget_if_empty ──> Idle
//! Idle ── poison ──> Poisoned ── heal, discard ──> Idle
//! any of them ── start_commit ──> Committing ── finish_commit ──> the state before
//! ```

use super::committed::NextCommit;
use crate::error::{Error, ErrorKind, Result};
use crate::transaction::Transaction;
use std::path::Path;

/// The database's own transaction. The lock around it is the writer's lock.
#[derive(Default)]
pub(in crate::database) struct Writer(WriterState);

#[derive(Default)]
enum WriterState {
    /// Nothing was staged since the last commit; the next call begins a transaction.
    #[default]
    Idle,
    Active(Box<Transaction>),
    /// A commit is running, has panicked or has failed. After a panic or failure, only a rollback
    /// or a reopen ends this state.
    Poisoned(String),
    /// The commit of a spilled transaction is running, or was interrupted.
    Committing {
        commit: Box<SpilledCommit>,
        before: Box<WriterState>,
    },
}

/// The commit of a spilled transaction that has begun.
pub(in crate::database) struct SpilledCommit {
    pub(in crate::database) id: u64,
    pub(in crate::database) next: NextCommit,
    /// Whether it moves the offsets of all stores; a restore moves those of one.
    pub(in crate::database) moves_offsets: bool,
    /// Why it was interrupted.
    why: String,
}

impl SpilledCommit {
    pub(in crate::database) fn new(id: u64, next: NextCommit, moves_offsets: bool) -> Self {
        Self {
            id,
            next,
            moves_offsets,
            why: "the reason is unknown".to_owned(),
        }
    }
}

impl Writer {
    /// Fails if a commit failed or was interrupted.
    pub(in crate::database) fn check_usable(&self, path: &Path) -> Result<()> {
        if let WriterState::Poisoned(why) = &self.0 {
            let words = format!(
                "a commit failed ({why}); call rollback() to go on from the last commit, or open \
                 the database again"
            );
            return Err(Error::new(ErrorKind::InvalidState, words).path(path));
        }
        self.check_finished(path)
    }

    /// Fails if a commit was interrupted.
    pub(in crate::database) fn check_finished(&self, path: &Path) -> Result<()> {
        let WriterState::Committing { commit, .. } = &self.0 else {
            return Ok(());
        };
        let words = format!(
            "a commit was interrupted ({}); call rollback() or recover() to end it, or open the \
             database again",
            commit.why
        );
        Err(Error::new(ErrorKind::InvalidState, words).path(path))
    }

    /// Whether a commit failed or was interrupted, or a write failed half-way.
    pub(in crate::database) fn has_failed(&self) -> bool {
        match &self.0 {
            WriterState::Idle => false,
            WriterState::Active(tx) => tx.check_not_poisoned().is_err(),
            WriterState::Poisoned(_) | WriterState::Committing { .. } => true,
        }
    }

    pub(in crate::database) fn is_idle(&self) -> bool {
        matches!(self.0, WriterState::Idle)
    }

    pub(in crate::database) fn transaction(&self) -> Option<&Transaction> {
        match &self.0 {
            WriterState::Active(tx) => Some(tx),
            _ => None,
        }
    }

    pub(in crate::database) fn transaction_mut(&mut self) -> Option<&mut Transaction> {
        match &mut self.0 {
            WriterState::Active(tx) => Some(tx),
            _ => None,
        }
    }

    /// Begins a transaction if none is open.
    pub(in crate::database) fn begin(
        &mut self,
        begin: impl FnOnce() -> Result<Transaction>,
    ) -> Result<()> {
        if self.is_idle() {
            self.0 = WriterState::Active(Box::new(begin()?));
        }
        Ok(())
    }

    /// Takes the open transaction out, for its commit.
    pub(in crate::database) fn take(&mut self) -> Option<Transaction> {
        match std::mem::take(&mut self.0) {
            WriterState::Active(tx) => Some(*tx),
            other => {
                self.0 = other;
                None
            }
        }
    }

    /// Refuses work from now on, since the transaction that was taken out is not committed.
    pub(in crate::database) fn poison(&mut self, why: &str) {
        if matches!(self.0, WriterState::Idle | WriterState::Poisoned(_)) {
            self.0 = WriterState::Poisoned(why.to_owned());
        }
    }

    /// Accepts work again, after the transaction that was taken out was committed or the database
    /// was found closed.
    pub(in crate::database) fn heal(&mut self) {
        if matches!(self.0, WriterState::Poisoned(_)) {
            self.0 = WriterState::Idle;
        }
    }

    /// Removes the transaction, or the reason of a failed commit. An interrupted commit remains.
    ///
    /// The transaction is returned, so that the caller drops it after it has released the lock.
    pub(in crate::database) fn discard(&mut self) -> Option<Transaction> {
        match std::mem::take(&mut self.0) {
            WriterState::Active(tx) => Some(*tx),
            WriterState::Idle | WriterState::Poisoned(_) => None,
            committing @ WriterState::Committing { .. } => {
                self.0 = committing;
                None
            }
        }
    }

    pub(in crate::database) fn forget_if_empty(&mut self) {
        if self.transaction().is_some_and(Transaction::is_empty) {
            self.0 = WriterState::Idle;
        }
    }

    /// Starts the commit of a spilled transaction. If that is a private transaction, the database's
    /// own transaction is open again afterwards.
    ///
    /// # Errors
    /// `InvalidState` if an earlier commit was interrupted.
    pub(in crate::database) fn start_commit(
        &mut self,
        commit: SpilledCommit,
        path: &Path,
    ) -> Result<()> {
        self.check_finished(path)?;
        self.0 = WriterState::Committing {
            commit: Box::new(commit),
            before: Box::new(std::mem::take(&mut self.0)),
        };
        Ok(())
    }

    /// The commit of a spilled transaction that is running or was interrupted.
    pub(in crate::database) fn spilled_commit(&self) -> Option<&SpilledCommit> {
        match &self.0 {
            WriterState::Committing { commit, .. } => Some(commit),
            _ => None,
        }
    }

    /// Records why the commit of a spilled transaction was interrupted.
    pub(in crate::database) fn interrupt_commit(&mut self, why: &Error) {
        if let WriterState::Committing { commit, .. } = &mut self.0 {
            commit.why = why.to_string();
        }
    }

    /// Ends the commit of a spilled transaction, whether it was committed or undone.
    pub(in crate::database) fn finish_commit(&mut self) {
        match std::mem::take(&mut self.0) {
            WriterState::Committing { before, .. } => self.0 = *before,
            other => self.0 = other,
        }
    }

    /// Drops everything, since the database is being closed.
    pub(in crate::database) fn close(&mut self) {
        self.0 = WriterState::Idle;
    }
}
