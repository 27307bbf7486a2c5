//! What a database is made anew from: the newest good snapshot, fetched beside it and put in its
//! place.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use holdfast_core::{Database, Error, ErrorKind, Result};

use super::directory::Directory;
use super::progress::{Pace, bytes, bytes_so_far};
use super::snapshot::remove;
use super::{Inner, Open, PartitionState, QUERY, Wanted, chain, close};
use crate::log::HeadHeader;
use crate::protocol::Epoch;
use crate::root::{Moved, SnapshotId};

/// Which snapshots have files of the database.
#[derive(Default)]
pub struct Origin {
    /// The newest of them: the one that it was made from, or that was taken of it since.
    newest: Option<SnapshotId>,
    /// Those whose databases were damaged when they were read, the last one last. A block that goes
    /// bad on a local disk goes into the next snapshot with all its digests right: a database is
    /// made from such a one only where there is nothing else, and it goes as soon as there is a
    /// newer one. Not before: it may have been good, and the disk that it was restored to bad.
    doubted: Vec<SnapshotId>,
}

impl PartitionState {
    /// The database has shown damage: the newest snapshot that has files of it may have it, too.
    pub(super) fn doubt(&self) {
        let mut origin = self.origin.lock();
        if let Some(id) = origin.newest.take() {
            log::warn!(
                "{self}: the snapshot of epoch {} may have the damage, too: another one is \
                 preferred",
                id.epoch
            );
            origin.doubted.retain(|other| *other != id);
            origin.doubted.push(id);
            self.next_at_once.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a snapshot of that epoch would have the name of one that may be damaged.
    pub(super) fn is_doubted(&self, epoch: Epoch) -> bool {
        self.origin
            .lock()
            .doubted
            .iter()
            .any(|id| id.epoch == epoch)
    }

    /// A snapshot was taken; returns those that may be damaged and are needed no more.
    pub(super) fn was_taken(&self, id: SnapshotId) -> Vec<SnapshotId> {
        let mut origin = self.origin.lock();
        origin.newest = Some(id);
        std::mem::take(&mut origin.doubted)
    }

    fn came_from(&self, id: Option<SnapshotId>) {
        self.origin.lock().newest = id;
    }

    /// When a snapshot was last found to be damaged, as a rank; none for one that was not.
    fn doubts(&self, id: &SnapshotId) -> Option<usize> {
        self.origin
            .lock()
            .doubted
            .iter()
            .position(|other| other == id)
    }

    /// A database where there is none: that of the newest good snapshot, else an empty one.
    pub(super) fn begin(
        &self,
        directory: &mut Directory,
        wanted: &Wanted<'_>,
    ) -> Result<Arc<Database>> {
        // What may be left there first, so that the disk need not hold both.
        directory.clear()?;
        let fetched = directory.beside("restore");
        match self.newest_snapshot(wanted, None, &fetched, || directory.adopt(&fetched, wanted)) {
            Ok(Some(db)) => Ok(db),
            Ok(None) => {
                self.came_from(None);
                directory.remake(wanted)
            }
            // What came of a bad snapshot must not be taken for a state.
            Err(error) => directory.clear().and(Err(error)),
        }
    }

    /// Puts the newest good snapshot in place of a database that is so old that the log behind it
    /// is gone, or that is empty.
    pub(super) fn catch_up(&self, inner: &mut Inner, wanted: &Wanted<'_>) -> Result<()> {
        let Open { db, directory, .. } = inner.opened()?;
        let (applied, old, fetched) = (
            self.applied(db)?,
            Arc::clone(db),
            directory.beside("restore"),
        );
        if let Some(applied) = applied
            && (applied >= wanted.epoch
                || !self.root.objects(Some(&self.operator), applied)?.is_empty())
        {
            return Ok(());
        }
        let mut is_there = true;
        let restored = self.newest_snapshot(wanted, applied, &fetched, || {
            is_there = false;
            close(&old);
            directory.adopt(&fetched, wanted)
        });
        let db = match restored {
            Ok(Some(db)) => Ok(db),
            Ok(None) if is_there => return Ok(()),
            Err(error) if is_there => return Err(error),
            Ok(None) => {
                self.came_from(None);
                directory.remake(wanted)
            }
            Err(error) => directory.clear().and(Err(error)),
        };
        let open = inner.open.take();
        inner.prepared.clear();
        inner.open = Some(Open {
            db: db?,
            checked: None,
            flushed: Instant::now(),
            ..open.ok_or_else(super::closed)?
        });
        Ok(())
    }

    /// Fetches the newest snapshot that is good and has `adopt` open it; none if there is no such,
    /// and the log is whole.
    fn newest_snapshot(
        &self,
        wanted: &Wanted<'_>,
        applied: Option<Epoch>,
        fetched: &Path,
        adopt: impl FnMut() -> Result<Arc<Database>>,
    ) -> Result<Option<Arc<Database>>> {
        let mut damaged = Vec::new();
        let restored = self.first_good(wanted, applied, fetched, adopt, &mut damaged)?;
        // The state is there without them. Whoever counts snapshots, to remove older ones and the
        // log behind them, goes by names.
        for id in &damaged {
            self.next_at_once.store(true, Ordering::Relaxed);
            match self.root.discard_snapshot(id, wanted.run) {
                Ok(()) => log::warn!(
                    "{self}: the damaged snapshot of epoch {} is removed, the next one is taken \
                     at once",
                    id.epoch
                ),
                Err(error) => log::warn!(
                    "{self}: the damaged snapshot of epoch {} stays: {error}",
                    id.epoch
                ),
            }
        }
        Ok(restored)
    }

    /// As [`PartitionState::newest_snapshot`]; those that were damaged are told.
    fn first_good(
        &self,
        wanted: &Wanted<'_>,
        applied: Option<Epoch>,
        fetched: &Path,
        mut adopt: impl FnMut() -> Result<Arc<Database>>,
        damaged: &mut Vec<SnapshotId>,
    ) -> Result<Option<Arc<Database>>> {
        let newer = |id: &SnapshotId| {
            id.epoch < wanted.epoch && applied.is_none_or(|applied| id.epoch > applied)
        };
        let look = || -> Result<Vec<SnapshotId>> {
            let mut found: Vec<SnapshotId> = self
                .root
                .snapshots(&self.operator, self.number)?
                .into_iter()
                .filter(newer)
                .collect();
            found.sort_by_key(|id| self.doubts(id));
            Ok(found)
        };
        // Without a snapshot the log must be whole.
        let first = applied.unwrap_or(wanted.first_epoch);
        let is_log_whole = || -> Result<bool> {
            Ok(self
                .root
                .objects(Some(&self.operator), first)?
                .iter()
                .any(|object| object.partition == self.number))
        };
        let (mut candidates, mut reasons) = (look()?, String::new());
        while !candidates.is_empty() {
            for id in &candidates {
                if self.doubts(id).is_some() && is_log_whole()? {
                    return Ok(None);
                }
                let (header, is_log) = match self.decided_header(wanted, id.epoch) {
                    Ok(header) => (Ok(header), false),
                    Err(error) => (Err(error), true),
                };
                match header.and_then(|header| self.restore(id, &header, fetched, &mut adopt)) {
                    Ok(db) => {
                        self.came_from(Some(id.clone()));
                        return Ok(Some(db));
                    }
                    Err(error)
                        if matches!(
                            error.kind(),
                            ErrorKind::Restore
                                | ErrorKind::StoreCorrupted
                                | ErrorKind::StateMismatch
                        ) =>
                    {
                        // Another store than the query's (`StateMismatch`) is no damage.
                        if !is_log
                            && error.kind() != ErrorKind::StateMismatch
                            && !damaged.contains(id)
                        {
                            damaged.push(id.clone());
                        }
                        log::warn!(
                            "{self}: the snapshot of epoch {} is of no use: {error}",
                            id.epoch
                        );
                        reasons.push_str(&format!("; the snapshot of epoch {}: {error}", id.epoch));
                    }
                    Err(error) => return Err(error),
                }
            }
            // Another host that still takes snapshots may have removed these meanwhile: then there
            // are newer ones.
            let now = look()?;
            if now.iter().all(|id| candidates.contains(id)) {
                break;
            }
            candidates = now;
        }
        if !candidates.is_empty() && !is_log_whole()? {
            let text = format!(
                "{self}: the log behind epoch {first} is gone, and no snapshot can be \
                 read{reasons}. Restore the root from a backup"
            );
            return Err(Error::new(ErrorKind::Restore, text));
        }
        Ok(None)
    }

    fn restore(
        &self,
        id: &SnapshotId,
        header: &HeadHeader,
        fetched: &Path,
        adopt: &mut impl FnMut() -> Result<Arc<Database>>,
    ) -> Result<Arc<Database>> {
        let pace = Pace::start();
        let other = |what: &str| Error::new(ErrorKind::Restore, format!("it holds {what}"));
        if header.chain() != id.chain {
            return Err(other("another state than the one that was decided"));
        }
        remove(fetched)?;
        let moved = self.root.fetch_snapshot(id, fetched, &|so_far: Moved| {
            if so_far.copied == 0 {
                log::info!(
                    "{self}: restoring the snapshot of epoch {}: {} files, {}",
                    id.epoch,
                    so_far.files,
                    bytes(so_far.bytes)
                );
            } else if let Some(elapsed) = pace.due() {
                log::info!(
                    "{self}: snapshot of epoch {}: {}",
                    id.epoch,
                    bytes_so_far(so_far.copied, so_far.bytes, elapsed)
                );
            }
        });
        if moved.is_err()
            && let Err(left) = remove(fetched)
        {
            // It may be large, and the disk may be full.
            log::warn!("{self}: a part of a snapshot is left on the disk: {left}");
        }
        let moved = moved?;
        let db = adopt()?;
        if !self.holds(&db, id)? {
            close(&db);
            return Err(other("another state than its name says"));
        }
        log::info!(
            "{self}: restored the snapshot of epoch {}: {} files, {} in {:.2} s",
            id.epoch,
            moved.files,
            bytes(moved.bytes),
            pace.elapsed().as_secs_f64()
        );
        Ok(db)
    }

    fn holds(&self, db: &Database, id: &SnapshotId) -> Result<bool> {
        let ours = db
            .property(QUERY)?
            .is_some_and(|query| query == self.query_id.as_bytes());
        Ok(ours && self.applied(db)? == Some(id.epoch) && chain(db)? == id.chain)
    }
}
