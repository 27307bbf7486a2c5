//! Snapshots of a partition: taken now and then beside the epochs, and what a database is made anew from.
//!
//! Two are kept, so that a damaged one is no loss. The log is needed from the older one of every partition of every operator
//! on; what lies before that, and further back than `retain_epochs`, is removed.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use holdfast_core::{Error, ErrorKind, Result, Task};
use parking_lot::Mutex;

use super::directory::Directory;
use super::progress::{Pace, bytes, bytes_so_far};
use super::{Inner, Open, Partition, QUERY, Wanted, chain, close};
use crate::protocol::{Epoch, Partition as Number, RunNumber};
use crate::root::{Known, Moved, SnapshotId};

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
    /// When the last one was begun, or the database was opened.
    last: Option<Instant>,
    /// Of which epoch.
    pub(super) epoch: Option<Epoch>,
    /// One is being taken.
    busy: bool,
    known: Known,
}

impl Partition {
    /// Begins a snapshot in a thread of its own, if it is time for one.
    pub(super) fn snapshot_if_due(self: &Arc<Self>, inner: &mut Inner, wanted: &Wanted<'_>) {
        let last = *inner.snapshots.last.get_or_insert_with(Instant::now);
        let applied = wanted.epoch.previous();
        // Files have no copy of a store in memory: without snapshots the log stays whole, which brings it back.
        if wanted.stores.iter().any(|store| !store.persistent) {
            return;
        }
        if inner.snapshots.busy || last.elapsed() < wanted.snapshots.interval || applied.is_none() || applied <= inner.snapshots.epoch {
            return;
        }
        inner.snapshots.busy = true;
        inner.snapshots.last = Some(Instant::now());
        let (partition, run, partitions, policy) = (Arc::clone(self), wanted.run, wanted.partitions, wanted.snapshots);
        let work = move || {
            let taken = partition.snapshot(run, partitions, policy);
            partition.inner.lock().snapshots.busy = false;
            match taken {
                // The host ends, or the partition has moved: the next owner takes one.
                Err(error) if error.kind() == ErrorKind::StoreClosed => log::debug!("{partition}: no snapshot: {error}"),
                Err(error) => log::warn!("{partition}: no snapshot was taken, the next one may be: {error}"),
                Ok(()) => {}
            }
        };
        if let Err(error) = thread::Builder::new().name(format!("snapshot-{}", self.number)).spawn(work) {
            inner.snapshots.busy = false;
            log::warn!("{self}: no snapshot was taken: {error}");
        }
    }

    fn snapshot(&self, run: RunNumber, partitions: u32, policy: SnapshotPolicy) -> Result<()> {
        let _turn = UPLOAD.lock();
        let started = Instant::now();
        let task = Arc::clone(self.inner.lock().task()?);
        // Most of what is in memory goes to files while epochs go on; the checkpoint then finds little left to write.
        task.flush(true)?;
        drop(task);
        let (id, directory, mut known) = {
            let mut inner = self.inner.lock();
            let known = std::mem::take(&mut inner.snapshots.known);
            let Open { task, directory, .. } = inner.opened()?;
            let Some(epoch) = self.applied(task)? else { return Ok(()) };
            let id = SnapshotId { operator: self.operator.clone(), partition: self.number, epoch, chain: chain(task)? };
            let copy = directory.beside("snapshot");
            remove(&copy)?;
            task.checkpoint(&copy)?;
            (id, copy, known)
        };
        let moved = self.root.fence(run).and_then(|()| self.root.put_snapshot(&id, &directory, &mut known));
        remove(&directory)?;
        let moved = moved?;
        self.inner.lock().snapshots.known = known;
        // The upload may have taken long.
        self.root.keep_snapshots(&self.operator, self.number, run, KEPT)?;
        self.inner.lock().snapshots.epoch = Some(id.epoch);
        let forgotten = self.forget_epochs(id.epoch, run, partitions, policy.retain_epochs)?;
        log::info!(
            "{self}: snapshot of epoch {}: {} files, {} of {} copied, {forgotten} epochs of the log removed, {:.2} s",
            id.epoch,
            moved.files,
            bytes(moved.copied),
            bytes(moved.bytes),
            started.elapsed().as_secs_f64()
        );
        Ok(())
    }

    /// Removes the log that no restore can need.
    fn forget_epochs(&self, newest: Epoch, run: RunNumber, partitions: u32, retain_epochs: i64) -> Result<usize> {
        let operators: BTreeSet<_> = self.root.objects(None, newest)?.into_iter().map(|object| object.operator).collect();
        let mut before = Epoch(newest.0.saturating_sub(retain_epochs));
        for operator in &operators {
            for number in 0..partitions {
                match self.root.snapshots(operator, Number(number.cast_signed()))?.get(KEPT - 1) {
                    Some(older) => before = before.min(older.epoch),
                    None => return Ok(0),
                }
            }
        }
        if operators.is_empty() || before.0 <= 0 {
            return Ok(0);
        }
        self.root.fence(run)?;
        self.root.forget_epochs(before)
    }

    /// A database where there is none: that of the newest good snapshot, else an empty one.
    pub(super) fn begin(&self, directory: &mut Directory, wanted: &Wanted<'_>) -> Result<Arc<Task>> {
        // What may be left there first, so that the disk need not hold both.
        directory.clear()?;
        let fetched = directory.beside("restore");
        match self.newest_snapshot(wanted, None, &fetched, || directory.adopt(&fetched, wanted)) {
            Ok(Some(task)) => Ok(task),
            Ok(None) => directory.remake(wanted),
            // What came of a bad snapshot must not be taken for a state.
            Err(error) => directory.clear().and(Err(error)),
        }
    }

    /// Puts the newest good snapshot in place of a database that is so old that the log behind it is gone, or that is empty.
    pub(super) fn catch_up(&self, inner: &mut Inner, wanted: &Wanted<'_>) -> Result<()> {
        let Open { task, directory, .. } = inner.opened()?;
        let (applied, old, fetched) = (self.applied(task)?, Arc::clone(task), directory.beside("restore"));
        if let Some(applied) = applied
            && (applied >= wanted.epoch || !self.root.objects(Some(&self.operator), applied)?.is_empty())
        {
            return Ok(());
        }
        let mut is_there = true;
        let restored = self.newest_snapshot(wanted, applied, &fetched, || {
            is_there = false;
            close(&old);
            directory.adopt(&fetched, wanted)
        });
        let task = match restored {
            Ok(Some(task)) => Ok(task),
            Ok(None) if is_there => return Ok(()),
            Err(error) if is_there => return Err(error),
            Ok(None) => directory.remake(wanted),
            Err(error) => directory.clear().and(Err(error)),
        };
        let open = inner.open.take();
        inner.prepared.clear();
        inner.open = Some(Open { task: task?, checked: None, flushed: Instant::now(), ..open.ok_or_else(super::closed)? });
        Ok(())
    }

    /// Fetches the newest snapshot that is good and has `adopt` open it; none if there is no such, and the log is whole.
    fn newest_snapshot(
        &self,
        wanted: &Wanted<'_>,
        applied: Option<Epoch>,
        fetched: &Path,
        mut adopt: impl FnMut() -> Result<Arc<Task>>,
    ) -> Result<Option<Arc<Task>>> {
        let newer = |id: &SnapshotId| id.epoch < wanted.epoch && applied.is_none_or(|applied| id.epoch > applied);
        let look =
            || -> Result<Vec<SnapshotId>> { Ok(self.root.snapshots(&self.operator, self.number)?.into_iter().filter(newer).collect()) };
        let (mut candidates, mut reasons) = (look()?, String::new());
        while !candidates.is_empty() {
            for id in &candidates {
                match self.restore(wanted, id, fetched, &mut adopt) {
                    Ok(task) => return Ok(Some(task)),
                    Err(error) if matches!(error.kind(), ErrorKind::Restore | ErrorKind::StoreCorrupted | ErrorKind::TaskCorrupted) => {
                        log::warn!("{self}: the snapshot of epoch {} is of no use: {error}", id.epoch);
                        reasons.push_str(&format!("; the snapshot of epoch {}: {error}", id.epoch));
                    }
                    Err(error) => return Err(error),
                }
            }
            // Another host that still takes snapshots may have removed these meanwhile: then there are newer ones.
            let now = look()?;
            if now.iter().all(|id| candidates.contains(id)) {
                break;
            }
            candidates = now;
        }
        // Without a snapshot the log must be whole.
        let first = applied.unwrap_or(wanted.first_epoch);
        if !candidates.is_empty() && self.root.objects(Some(&self.operator), first)?.is_empty() {
            let text = format!(
                "{self}: the log behind epoch {first} is gone, and no snapshot can be read{reasons}. Restore the root from a backup"
            );
            return Err(Error::new(ErrorKind::Restore, text));
        }
        Ok(None)
    }

    fn restore(
        &self,
        wanted: &Wanted<'_>,
        id: &SnapshotId,
        fetched: &Path,
        adopt: &mut impl FnMut() -> Result<Arc<Task>>,
    ) -> Result<Arc<Task>> {
        let pace = Pace::start();
        let other = |what: &str| Error::new(ErrorKind::Restore, format!("it holds {what}"));
        let decided = self.decided(wanted, id.epoch)?;
        let header = self.root.head_header(id.epoch, &decided)?;
        let header = header.ok_or_else(|| self.missing(decided, id.epoch))?;
        if header.chain() != id.chain {
            return Err(other("another state than the one that was decided"));
        }
        remove(fetched)?;
        let moved = self.root.fetch_snapshot(id, fetched, &|so_far: Moved| {
            if so_far.copied == 0 {
                log::info!("{self}: restoring the snapshot of epoch {}: {} files, {}", id.epoch, so_far.files, bytes(so_far.bytes));
            } else if let Some(elapsed) = pace.due() {
                log::info!("{self}: snapshot of epoch {}: {}", id.epoch, bytes_so_far(so_far.copied, so_far.bytes, elapsed));
            }
        });
        if moved.is_err()
            && let Err(left) = remove(fetched)
        {
            // It may be large, and the disk may be full.
            log::warn!("{self}: a part of a snapshot is left on the disk: {left}");
        }
        let moved = moved?;
        let task = adopt()?;
        if !self.holds(&task, id)? {
            close(&task);
            return Err(other("another state than its name says"));
        }
        log::info!(
            "{self}: restored the snapshot of epoch {}: {} files, {} in {:.2} s",
            id.epoch,
            moved.files,
            bytes(moved.bytes),
            pace.elapsed().as_secs_f64()
        );
        Ok(task)
    }

    fn holds(&self, task: &Task, id: &SnapshotId) -> Result<bool> {
        let ours = task.property(QUERY)?.is_some_and(|query| query == self.query_id.as_bytes());
        Ok(ours && self.applied(task)? == Some(id.epoch) && chain(task)? == id.chain)
    }
}

fn remove(directory: &Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::new(ErrorKind::Io, format!("the directory cannot be removed ({error}): check its permissions")).path(directory))
        }
        _ => Ok(()),
    }
}
