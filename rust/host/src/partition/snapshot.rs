//! Snapshots of a partition: taken now and then beside the epochs.
//!
//! Two are kept, so that a damaged one is no loss. The log is needed from the older one of every
//! partition of every operator on; what lies before that, and further back than `retain_epochs`, is
//! removed.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use holdfast_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use super::progress::bytes;
use super::{Inner, Open, PartitionState, Wanted, chain};
use crate::protocol::{Epoch, RunNumber};
use crate::root::{Known, SnapshotId};

/// How many are kept.
const KEPT: usize = 2;

/// One upload at a time in a host: they share its disk and its network with the epochs.
static UPLOAD: Mutex<()> = Mutex::new(());

/// When snapshots are taken, and how much log is kept.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotPolicy {
    /// The least time between two.
    pub interval: Duration,
    /// So many epochs of the log stay, whatever snapshots there are.
    pub retain_epochs: i64,
}

/// What a partition remembers of its snapshots.
#[derive(Default)]
pub struct Snapshots {
    /// When the last one was begun, or the partition was first used.
    last: Option<Instant>,
    /// This host has begun one.
    begun: bool,
    /// Of which epoch the newest one is, as it was found or taken.
    pub(super) epoch: Option<Epoch>,
    known: Known,
}

/// Ends with the upload, also where that panics: the next one may be taken.
struct Upload<'a>(&'a AtomicBool);

impl Drop for Upload<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl PartitionState {
    /// Begins a snapshot in a thread of its own, if it is time for one.
    pub(super) fn snapshot_if_due(self: &Arc<Self>, inner: &mut Inner, wanted: &Wanted<'_>) {
        let last = *inner.snapshots.last.get_or_insert_with(Instant::now);
        // Files have no copy of a store in memory: without snapshots the log stays whole, which
        // brings it back.
        if self.is_uploading()
            || wanted.stores.iter().any(|store| !store.persistent)
            || !self.is_due(&inner.snapshots, last, wanted)
        {
            return;
        }
        let begun = Instant::now();
        self.uploading.store(true, Ordering::Relaxed);
        inner.snapshots.last = Some(begun);
        inner.snapshots.begun = true;
        let (partition, run, partitions, policy) = (
            Arc::clone(self),
            wanted.run,
            wanted.partitions,
            wanted.snapshots,
        );
        let work = move || {
            let _ends = Upload(&partition.uploading);
            match partition.snapshot(run, partitions, policy, begun) {
                // The host ends, or the partition has moved: the next owner takes one.
                Err(error) if error.kind() == ErrorKind::StoreClosed => {
                    log::debug!("{partition}: no snapshot: {error}")
                }
                Err(error) => {
                    log::warn!("{partition}: no snapshot was taken, the next one may be: {error}")
                }
                Ok(()) => {}
            }
        };
        if let Err(error) = thread::Builder::new()
            .name(format!("snapshot-{}", self.number))
            .spawn(work)
        {
            self.uploading.store(false, Ordering::Relaxed);
            log::warn!("{self}: no snapshot was taken: {error}");
        }
    }

    /// Whether one is being taken.
    pub fn is_uploading(&self) -> bool {
        self.uploading.load(Ordering::Relaxed)
    }

    fn is_due(&self, known: &Snapshots, last: Instant, wanted: &Wanted<'_>) -> bool {
        let Some(applied) = wanted.epoch.previous() else {
            return false;
        };
        let at_once = self.next_at_once.load(Ordering::Relaxed);
        let newest = known.epoch.filter(|_| !at_once);
        if newest.is_some_and(|newest| applied <= newest) || self.is_doubted(applied) {
            return false;
        }
        // Hosts may live shorter than the interval, start after start: the first one of each goes
        // by epochs as well.
        let behind = applied.0.saturating_sub(
            newest.map_or(wanted.first_epoch.0.saturating_sub(1), |newest| newest.0),
        );
        at_once
            || last.elapsed() >= wanted.snapshots.interval
            || !known.begun && behind >= wanted.snapshots.retain_epochs
    }

    fn snapshot(
        &self,
        run: RunNumber,
        partitions: u32,
        policy: SnapshotPolicy,
        begun: Instant,
    ) -> Result<()> {
        let turn = UPLOAD.lock();
        let started = Instant::now();
        let db = Arc::clone(self.inner.lock().db()?);
        // Most of what is in memory goes to files while epochs go on; the checkpoint then finds
        // little left to write.
        db.flush(true)?;
        drop(db);
        let (id, directory, mut known, rebuilds) = {
            let mut inner = self.inner.lock();
            let rebuilds = inner.rebuilds;
            let known = std::mem::take(&mut inner.snapshots.known);
            let Open { db, directory, .. } = inner.opened()?;
            // One that may be damaged would keep its name and its files.
            let Some(epoch) = self.applied(db)?.filter(|epoch| !self.is_doubted(*epoch)) else {
                return Ok(());
            };
            let id = SnapshotId {
                operator: self.operator.clone(),
                partition: self.number,
                epoch,
                chain: chain(db)?,
            };
            let copy = directory.beside("snapshot");
            remove(&copy)?;
            db.checkpoint(&copy)?;
            (id, copy, known, rebuilds)
        };
        let moved = self
            .root
            .fence(run)
            .and_then(|()| self.root.put_snapshot(&id, run, &directory, &mut known));
        if let Err(left) = remove(&directory) {
            log::warn!("{self}: the files of a snapshot are left on the disk: {left}");
        }
        let moved = moved?;
        // The upload may have taken long.
        let doubted = {
            let mut inner = self.inner.lock();
            if inner.rebuilds != rebuilds {
                drop(inner);
                log::warn!(
                    "{self}: the snapshot of epoch {} is removed: its database was made anew \
                     meanwhile",
                    id.epoch
                );
                self.next_at_once.store(true, Ordering::Relaxed);
                return self.root.discard_snapshot(&id, run);
            }
            inner.snapshots.known = known;
            inner.snapshots.epoch = Some(id.epoch);
            // Before the older ones go: what is found from here on is found of this one.
            self.next_at_once.store(false, Ordering::Relaxed);
            self.was_taken(id.clone())
        };
        for doubted in &doubted {
            self.root.discard_snapshot(doubted, run)?;
        }
        self.root.keep_snapshots(&id, run, KEPT)?;
        drop(turn);
        // What this one has made needless goes with the next round, of all partitions.
        let forgotten = match self.root.is_cleaning_due(begun, policy.interval) {
            true => self
                .root
                .forget_log(id.epoch, run, partitions, KEPT, policy.retain_epochs)?,
            false => 0,
        };
        log::info!(
            "{self}: snapshot of epoch {}: {} files, {} of {} copied, {forgotten} epochs of the \
             log removed, {:.2} s",
            id.epoch,
            moved.files,
            bytes(moved.copied),
            bytes(moved.bytes),
            started.elapsed().as_secs_f64()
        );
        Ok(())
    }
}

/// Deletes a directory, if it is there.
pub(super) fn remove(directory: &Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::new(
            ErrorKind::Io,
            format!("the directory cannot be removed ({error}): check its permissions"),
        )
        .path(directory)),
        _ => Ok(()),
    }
}
