//! The database of one partition on this host, and its state in memory.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use holdfast_core::{Commit, Database, Error, ErrorKind, Result};
use parking_lot::{Mutex, MutexGuard};

use super::epochs::{DroppedChanges, PreparedEpoch, PreparedEpochs, StagedEpochs};
use super::local::{LocalDirectory, OpenDatabase, close, position};
use super::progress::RestoreProgress;
use super::snapshot_history::{SnapshotHistory, SnapshotOrigin};
use super::view_request::{ServedEpoch, ViewRequest};
use crate::protocol::{
    Digest, Epoch, EpochDecision, OperatorName, PartitionDecision, PartitionId, RunNumber,
};
use crate::root::Root;

/// The state of one partition on this host.
pub struct PartitionState {
    pub(super) root: Arc<Root>,
    pub(super) query_id: String,
    pub(super) operator: OperatorName,
    pub(super) number: PartitionId,
    /// The folder of the partition's local directories.
    pub(super) home: PathBuf,
    /// Whether a snapshot is being taken.
    pub(super) uploading: AtomicBool,
    /// Whether the next snapshot is due regardless of the interval. Set if a restore found a
    /// damaged snapshot, if a damaged database may have damaged its snapshots, or if a new database
    /// was made during an upload; unset by a new snapshot.
    pub(super) snapshot_due_now: AtomicBool,
    pub(super) origin: Mutex<SnapshotOrigin>,
    pub(super) restore: RestoreProgress,
    inner: Mutex<PartitionInner>,
}

/// The part of a partition's state that one session at a time uses.
#[derive(Default)]
pub struct PartitionInner {
    pub(super) open: Option<OpenDatabase>,
    pub(super) prepared: PreparedEpochs,
    /// The staged changes of the next epoch, for readers.
    pub(super) staged: Arc<StagedEpochs>,
    /// Deleted after the release of the lock.
    pub(super) dropped: DroppedChanges,
    /// How often the database was discarded, because it was damaged or deleted, or had a wrong
    /// state.
    pub(super) rebuilds: u64,
    /// How often the database was damaged or deleted.
    pub(super) damages: u64,
    pub(super) snapshots: SnapshotHistory,
    /// The run that has checked that the root is not ahead of Spark's checkpoint.
    pub(super) lookahead_run: Option<RunNumber>,
    /// The epoch of the last session.
    pub(super) served: Option<ServedEpoch>,
    /// When a reader last checked whether Spark has committed the epoch of `served`.
    pub(super) commit_asked: Option<Instant>,
}

impl PartitionState {
    /// Creates a partition whose database is not open yet.
    ///
    /// `local_dir` has a folder for each operator and partition.
    pub fn new(
        root: Arc<Root>,
        query_id: &str,
        operator: OperatorName,
        number: PartitionId,
        local_dir: &Path,
    ) -> Self {
        let home = local_dir.join(operator.as_str()).join(number.to_string());
        Self {
            root,
            query_id: query_id.to_owned(),
            operator,
            number,
            home,
            uploading: AtomicBool::new(false),
            snapshot_due_now: AtomicBool::new(false),
            origin: Mutex::default(),
            restore: RestoreProgress::default(),
            inner: Mutex::default(),
        }
    }

    /// Waits for the lock.
    pub(super) fn lock(&self) -> LockedPartition<'_> {
        LockedPartition::of(self.inner.lock())
    }

    /// Takes the lock, if it is free.
    pub(super) fn try_lock(&self) -> Option<LockedPartition<'_>> {
        self.inner.try_lock().map(LockedPartition::of)
    }

    /// Waits for the lock, up to a deadline.
    pub(super) fn try_lock_until(&self, deadline: Instant) -> Option<LockedPartition<'_>> {
        let inner = self.inner.try_lock_until(deadline);
        inner.map(LockedPartition::of)
    }

    /// Discards a database in which a session found damage.
    ///
    /// The next [`Self::view`] makes a new one. If another database is open by now, nothing is
    /// done.
    pub fn discard(&self, db: &Arc<Database>) {
        let mut inner = self.lock();
        if inner
            .open
            .as_ref()
            .is_some_and(|open| Arc::ptr_eq(&open.db, db))
        {
            self.discard_open(&mut inner);
        }
    }

    /// Discards the open database, if there is one, because it is damaged.
    pub(super) fn discard_open(&self, inner: &mut PartitionInner) {
        inner.drop_changes();
        let Some(OpenDatabase { db, directory, .. }) = inner.open.take() else {
            return;
        };
        log::error!(
            "{self}: the local database {} is damaged; a new one is made from the root",
            db.path().display()
        );
        inner.note_damage();
        self.mark_suspect();
        close(&db);
        if let Err(error) = directory.clear() {
            log::warn!("{self}: {error}");
        }
    }

    /// Holds a staged epoch in memory until it is decided, if the memory budget allows.
    pub fn keep(&self, mut prepared: PreparedEpoch) {
        prepared
            .memory
            .set(prepared.transaction.uncommitted_bytes());
        if prepared.memory.is_exceeded() {
            log::debug!(
                "{self}: epoch {} is not held in memory, because uncommitted changes exceed their \
                 memory limit: it will be read from the log",
                prepared.epoch
            );
            return;
        }
        let inner = &mut *self.lock();
        inner.prepared.add(prepared, &mut inner.dropped);
    }

    /// Drops the staged changes of the next epoch, if no reader has used them for longer than
    /// `idle`.
    pub fn drop_unused_stage(&self, idle: Duration) {
        if let Some(mut inner) = self.try_lock()
            && let Some(unused) = inner.staged.take_unused(idle)
        {
            inner.dropped.add(unused);
        }
    }

    /// Flushes and closes the database; the next [`Self::view`] opens it again.
    pub fn close(&self) {
        self.lock().close();
    }

    /// As [`PartitionState::close`], but waits for the lock only until `deadline`; returns whether
    /// the database is closed.
    pub fn close_until(&self, deadline: Instant) -> bool {
        let inner = self.try_lock_until(deadline);
        inner.map(|mut inner| inner.close()).is_some()
    }

    /// Returns the root of the state.
    pub fn root(&self) -> &Arc<Root> {
        &self.root
    }

    /// Returns whether the partition's state is in this open root.
    pub fn is_of_root(&self, root: &Arc<Root>) -> bool {
        Arc::ptr_eq(&self.root, root)
    }

    /// Returns the folder of the partition's databases and of the files that sessions spill.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Committed changes that are not in files, in bytes; 0 if the database is closed or locked.
    pub fn unflushed_bytes(&self) -> u64 {
        let inner = self.try_lock();
        let open = inner.as_ref().and_then(|inner| inner.open.as_ref());
        open.map_or(0, |open| open.db.unflushed_bytes())
    }

    /// Marks the newest snapshot that shares files with the database as suspect, because the
    /// database is damaged.
    pub(super) fn mark_suspect(&self) {
        if let Some(id) = self.origin.lock().suspect_newest() {
            log::warn!(
                "{self}: the snapshot of epoch {} may be damaged, too: restores try other \
                 snapshots first",
                id.epoch
            );
            self.snapshot_due_now.store(true, Ordering::Relaxed);
        }
    }

    /// The last epoch in a database of this partition.
    pub(super) fn applied(&self, db: &Database) -> Result<Option<Epoch>> {
        position::applied(db, self.number)
    }

    /// The commit that moves a database of this partition to `epoch`.
    pub(super) fn commit(&self, epoch: Epoch, chain: Digest) -> Commit {
        position::commit(&self.query_id, self.number, epoch, chain)
    }

    /// The decision of a committed epoch.
    pub(super) fn decision(
        &self,
        request: &ViewRequest<'_>,
        epoch: Epoch,
    ) -> Result<Arc<EpochDecision>> {
        self.root
            .decisions
            .of(request.run, epoch, request.partitions)
    }

    /// The chain of this partition after a committed epoch; zero if the operator had not begun.
    pub(super) fn decided_chain(&self, request: &ViewRequest<'_>, epoch: Epoch) -> Result<Digest> {
        let decision = self.decision(request, epoch)?;
        let decided = decision.of(&self.operator, self.number);
        Ok(decided.map_or(Digest::ZERO, PartitionDecision::chain))
    }
}

/// The locked part of a partition's state; its drop releases the lock.
pub(super) struct LockedPartition<'a> {
    /// Released before the next field is dropped.
    inner: MutexGuard<'a, PartitionInner>,
    unlocked: DroppedChanges,
}

impl<'a> LockedPartition<'a> {
    fn of(inner: MutexGuard<'a, PartitionInner>) -> Self {
        let unlocked = DroppedChanges::default();
        Self { inner, unlocked }
    }
}

impl Drop for LockedPartition<'_> {
    fn drop(&mut self) {
        self.unlocked = std::mem::take(&mut self.inner.dropped);
    }
}

impl Deref for LockedPartition<'_> {
    type Target = PartitionInner;

    fn deref(&self) -> &PartitionInner {
        &self.inner
    }
}

impl DerefMut for LockedPartition<'_> {
    fn deref_mut(&mut self) -> &mut PartitionInner {
        &mut self.inner
    }
}

impl PartitionInner {
    /// Counts a database that was found damaged or deleted; a new one is made.
    pub(super) fn note_damage(&mut self) {
        self.rebuilds += 1;
        self.damages += 1;
    }

    /// Drops all changes that are staged over the open database.
    pub(super) fn drop_changes(&mut self) {
        self.prepared.clear();
        // A reader may still stage changes into the old value.
        self.staged = Arc::default();
    }

    /// The open database.
    ///
    /// # Errors
    /// `StoreClosed`.
    pub(super) fn opened(&mut self) -> Result<&mut OpenDatabase> {
        self.open.as_mut().ok_or_else(closed)
    }

    /// As [`PartitionInner::opened`].
    pub(super) fn db(&mut self) -> Result<&Arc<Database>> {
        self.opened().map(|open| &open.db)
    }

    /// Takes the directory of the open database; the caller closes the database.
    pub(super) fn take_directory(&mut self) -> Result<LocalDirectory> {
        self.drop_changes();
        self.open
            .take()
            .map(|open| open.directory)
            .ok_or_else(closed)
    }

    /// Closes the database, if it is open.
    pub(super) fn close(&mut self) {
        self.drop_changes();
        if let Some(open) = self.open.take() {
            close(&open.db);
        }
    }
}

impl fmt::Display for PartitionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operator {}, partition {}", self.operator, self.number)
    }
}

fn closed() -> Error {
    Error::new(
        ErrorKind::StoreClosed,
        "the partition's database is closed; retry the task",
    )
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    /// Sets its flag if it is dropped while the partition is not locked.
    struct Probe(Arc<PartitionState>, Arc<AtomicBool>);

    impl Drop for Probe {
        fn drop(&mut self) {
            self.1
                .store(self.0.inner.try_lock().is_some(), Ordering::Relaxed);
        }
    }

    #[test]
    fn dropped_changes_are_deleted_without_the_lock() {
        let objects = Arc::new(object_store::memory::InMemory::new());
        let root = Arc::new(Root::over(objects, Path::new("memory")));
        let operator = OperatorName::new("join").expect("a name");
        let folder = Path::new("state");
        let state = PartitionState::new(root, "q", operator, PartitionId(0), folder);
        let (state, deleted) = (Arc::new(state), Arc::new(AtomicBool::new(false)));
        let mut inner = state.lock();
        inner
            .dropped
            .add(Probe(Arc::clone(&state), Arc::clone(&deleted)));
        drop(inner);
        assert!(deleted.load(Ordering::Relaxed));
    }
}
