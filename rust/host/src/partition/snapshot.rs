//! Takes snapshots of a partition from time to time, while epochs continue.
//!
//! Two snapshots are retained, so that a restore can use the older one if the newer one is damaged.
//! An epoch of the log is removed if it is older than the retained snapshots of every partition of
//! every operator in the query, is not one of the last `retain_epochs`, and no named follower that
//! is at most `max_follower_lag` epochs behind needs it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use holdfast_core::{Database, ErrorKind, Result};
use parking_lot::Mutex;

use super::local::{OpenDatabase, position, remove_directory};
use super::progress::bytes;
use super::snapshot_history::{SnapshotHistory, SnapshotTerms, is_log_long};
use super::state::{PartitionInner, PartitionState};
use super::view_request::ViewRequest;
use crate::protocol::Epoch;
use crate::root::{LogRetention, SnapshotId};

/// How many snapshots of a partition are retained.
pub(super) const RETAINED: usize = 2;

/// Held during an upload. A host uploads one snapshot at a time, because uploads share disk and
/// network with the epochs.
static UPLOAD: Mutex<()> = Mutex::new(());

/// Marks the upload as ended when dropped, also after a panic.
struct UploadGuard<'a>(&'a AtomicBool);

impl Drop for UploadGuard<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl PartitionState {
    /// Starts a snapshot in its own thread, if one is due.
    pub(super) fn snapshot_if_due(
        self: &Arc<Self>,
        inner: &mut PartitionInner,
        request: &ViewRequest<'_>,
    ) {
        let last = *inner.snapshots.last_begun.get_or_insert_with(Instant::now);
        // A store in memory is not in the files of a snapshot. So no snapshots are taken: the log
        // then stays complete and restores the store.
        if request.stores.iter().any(|store| !store.persistent) {
            return;
        }
        let terms = SnapshotTerms {
            run: request.run,
            partitions: request.partitions,
            policy: request.snapshots,
        };
        inner.snapshots.last_terms = Some(terms);
        if !self.is_uploading() && self.is_due(&inner.snapshots, last, request) {
            self.start_snapshot(inner, terms);
        }
    }

    /// Starts a snapshot when the host ends, if the database was made from the root and has changed
    /// since the newest snapshot.
    ///
    /// In that case, the disk of an earlier host may be lost, so the disk of this host may be lost,
    /// too. Runs may be so short (`availableNow`) that no other snapshot is due.
    pub fn snapshot_at_end(self: &Arc<Self>) {
        // Usually, a session that holds the lock still restores the partition: no epoch is new.
        let Some(mut inner) = self.try_lock() else {
            return;
        };
        let Some(terms) = inner.snapshots.last_terms else {
            return;
        };
        if inner.snapshots.is_restored && inner.snapshots.log_bytes > 0 && !self.is_uploading() {
            self.start_snapshot(&mut inner, terms);
        }
    }

    fn start_snapshot(self: &Arc<Self>, inner: &mut PartitionInner, terms: SnapshotTerms) {
        let begun = Instant::now();
        self.uploading.store(true, Ordering::Relaxed);
        inner.snapshots.last_begun = Some(begun);
        inner.snapshots.has_begun = true;
        let newest = inner.snapshots.newest;
        let partition = Arc::clone(self);
        let work = move || {
            let _ends = UploadGuard(&partition.uploading);
            match partition.snapshot(terms, begun) {
                // The host ends, the partition has moved, or a newer run uses it: the next owner or
                // run takes a snapshot.
                Err(error)
                    if matches!(error.kind(), ErrorKind::StoreClosed | ErrorKind::Fenced) =>
                {
                    log::debug!("{partition}: no snapshot: {error}")
                }
                Err(error) => {
                    log::warn!(
                        "{partition}: no snapshot was taken; the next attempt is made when a \
                         snapshot is due again: {error}"
                    );
                    let snapshots = &mut partition.lock().snapshots;
                    // The error may be of a removal after the snapshot was taken.
                    snapshots.failures += u64::from(snapshots.newest == newest);
                }
                Ok(()) => {}
            }
        };
        if let Err(error) = thread::Builder::new()
            .name(format!("snapshot-{}", self.number))
            .spawn(work)
        {
            self.uploading.store(false, Ordering::Relaxed);
            inner.snapshots.failures += 1;
            log::warn!("{self}: no snapshot was taken: {error}");
        }
    }

    /// Returns whether a snapshot is being taken.
    pub fn is_uploading(&self) -> bool {
        self.uploading.load(Ordering::Relaxed)
    }

    fn is_suspect_epoch(&self, epoch: Epoch) -> bool {
        self.origin.lock().is_suspect_epoch(epoch)
    }

    fn is_due(&self, history: &SnapshotHistory, last: Instant, request: &ViewRequest<'_>) -> bool {
        let Some(applied) = request.epoch.previous() else {
            return false;
        };
        let due_now = self.snapshot_due_now.load(Ordering::Relaxed);
        let newest = history.newest.filter(|_| !due_now);
        if newest.is_some_and(|newest| applied <= newest) || self.is_suspect_epoch(applied) {
            return false;
        }
        // Each host may end before the interval has passed. So the first snapshot of a host is also
        // due after a number of epochs.
        let behind = applied.0.saturating_sub(
            newest.map_or(request.first_epoch.0.saturating_sub(1), |newest| newest.0),
        );
        due_now
            || last.elapsed() >= request.snapshots.interval
            || is_log_long(history.log_bytes, self.origin.lock().bytes())
            || !history.has_begun && behind >= request.snapshots.retain_epochs
    }

    /// Returns whether a store had a longer retention than it has in the open database, in the
    /// database's newest epoch in which an operator ran.
    ///
    /// The start with the shorter retention may commit nothing, and the next start then needs the
    /// rows that this database hides.
    fn had_longer_retention(&self, db: &Database) -> Result<bool> {
        let (Some(applied), Some(operator)) = (
            self.applied(db)?,
            self.root.operators.registered(&self.operator),
        ) else {
            return Ok(false);
        };
        // Usually no start had one, and no decision needs to be read.
        if !operator.had_longer_retention(db.stores(), None) {
            return Ok(false);
        }
        let sessions = self.root.decisions.newest_evaluated(applied)?;
        Ok(operator.had_longer_retention(db.stores(), sessions))
    }

    fn snapshot(&self, terms: SnapshotTerms, begun: Instant) -> Result<()> {
        let SnapshotTerms {
            run,
            partitions,
            policy,
        } = terms;
        let turn = UPLOAD.lock();
        let started = Instant::now();
        let db = Arc::clone(self.lock().db()?);
        // Writes most of the memtables while epochs continue. The checkpoint below holds the lock,
        // and then has little to write.
        db.flush(true)?;
        drop(db);
        // The partition has moved: the owner takes snapshots.
        let Some(term) = self.root.owners.last_held(&self.operator, self.number, run) else {
            return Ok(());
        };
        let (id, directory, mut known, (rebuilds, log_bytes)) = {
            let mut inner = self.lock();
            if self.had_longer_retention(inner.db()?)? {
                log::info!(
                    "{self}: no snapshot before an epoch that operators computed with the shorter \
                     retention is final"
                );
                return Ok(());
            }
            let before = (inner.rebuilds, inner.snapshots.log_bytes);
            let known = std::mem::take(&mut inner.snapshots.known);
            let OpenDatabase { db, directory, .. } = inner.opened()?;
            // A new snapshot of a suspect epoch could have the suspect snapshot's name, and would
            // use its files.
            let Some(epoch) = self
                .applied(db)?
                .filter(|epoch| !self.is_suspect_epoch(*epoch))
            else {
                return Ok(());
            };
            let id = SnapshotId {
                operator: self.operator.clone(),
                partition: self.number,
                epoch,
                chain: position::chain(db)?,
                term,
            };
            let copy = directory.beside("snapshot");
            remove_directory(&copy)?;
            db.checkpoint(&copy)?;
            (id, copy, known, before)
        };
        let transfer = self
            .root
            .runs
            .fence(run)
            .and_then(|()| self.root.snapshots.put(&id, &directory, &mut known));
        if let Err(left) = remove_directory(&directory) {
            log::warn!("{self}: the files of a snapshot are left on the disk: {left}");
        }
        let transfer = transfer?;
        // A new database may have been made during the upload.
        let suspects = {
            let mut inner = self.lock();
            if inner.rebuilds != rebuilds {
                drop(inner);
                log::warn!(
                    "{self}: the snapshot of epoch {} is removed: a new database was made \
                     meanwhile",
                    id.epoch
                );
                self.snapshot_due_now.store(true, Ordering::Relaxed);
                return self.root.garbage.discard(&id, run);
            }
            inner.snapshots.known = known;
            inner.snapshots.failures = 0;
            inner.snapshots.newest = Some(id.epoch);
            inner.snapshots.log_bytes = inner.snapshots.log_bytes.saturating_sub(log_bytes);
            // Unset before older snapshots are removed. Damage that is found from now on may be in
            // the new snapshot, and sets the flag again.
            self.snapshot_due_now.store(false, Ordering::Relaxed);
            let mut origin = self.origin.lock();
            origin.set_bytes(transfer.bytes);
            origin.replace(id.clone())
        };
        for (n, suspect) in suspects.iter().enumerate() {
            if let Err(error) = self.root.garbage.discard(suspect, run) {
                // Until they are removed, older snapshots must stay.
                let mut origin = self.origin.lock();
                suspects[n..]
                    .iter()
                    .for_each(|id| origin.suspect(id.clone()));
                return Err(error);
            }
        }
        self.root.garbage.retain_newest(&id, RETAINED)?;
        drop(turn);
        // The epochs that this snapshot makes unnecessary are removed for all partitions at once.
        let removed = match self.root.garbage.is_trim_due(begun, policy.interval) {
            true => {
                let decision = self.root.decisions.of(run, id.epoch, partitions)?;
                let retention = LogRetention {
                    epochs: policy.retain_epochs,
                    snapshots: RETAINED,
                    follower_lag: policy.max_follower_lag,
                };
                self.root.garbage.trim_log(&decision, run, retention)?
            }
            false => 0,
        };
        log::info!(
            "{self}: snapshot of epoch {}: {} files, {} of {} copied, {removed} epochs of the \
             log removed, {:.2} s",
            id.epoch,
            transfer.files,
            bytes(transfer.copied),
            bytes(transfer.bytes),
            started.elapsed().as_secs_f64()
        );
        Ok(())
    }
}
