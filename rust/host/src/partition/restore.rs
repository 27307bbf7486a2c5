//! Makes a new local database from the newest good snapshot.
//!
//! The snapshot is fetched into a folder beside the database's directory, and then replaces that
//! directory.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use holdfast_core::{Database, Error, ErrorKind, Result};

use super::local::{LocalDirectory, OpenDatabase, close, position, remove_directory};
use super::progress::{ProgressPace, bytes, bytes_so_far};
use super::snapshot::RETAINED;
use super::state::{PartitionInner, PartitionState};
use super::view_request::ViewRequest;
use crate::net::metrics::RestoreSource;
use crate::protocol::{Digest, Epoch};
use crate::root::{SnapshotId, SnapshotTransfer};

impl PartitionState {
    /// Clears the directory and makes a database in it, from the newest good snapshot. If there is
    /// no snapshot, or no good one and the log is complete, the database is empty.
    pub(super) fn make_database(
        &self,
        directory: &mut LocalDirectory,
        request: &ViewRequest<'_>,
    ) -> Result<Arc<Database>> {
        // Cleared first, so that the disk need not hold an old database and the new one.
        directory.clear()?;
        let fetched = directory.beside("restore");
        match self.newest_snapshot(request, None, &fetched, || {
            directory.adopt(&fetched, request)
        }) {
            Ok(Some(db)) => Ok(db),
            Ok(None) => {
                self.origin.lock().set_newest(None);
                directory.remake(request)
            }
            // The directory may hold a part of a bad snapshot, which must not be taken for a state.
            Err(error) => directory.clear().and(Err(error)),
        }
    }

    /// Replaces the database with the newest good snapshot if the database is empty, if the log
    /// after it was removed, or if that log is so long that the snapshot is faster.
    pub(super) fn catch_up(
        &self,
        inner: &mut PartitionInner,
        request: &ViewRequest<'_>,
    ) -> Result<()> {
        let OpenDatabase { db, directory, .. } = inner.opened()?;
        let (applied, old, fetched) = (
            self.applied(db)?,
            Arc::clone(db),
            directory.beside("restore"),
        );
        let has_log = match applied {
            Some(applied) if applied >= request.epoch => return Ok(()),
            Some(applied) => self.root.log.has_whole(applied)?,
            None => false,
        };
        if has_log && self.is_recent(applied, request)? {
            return Ok(());
        }
        let mut is_open = true;
        let restored = self.newest_snapshot(request, applied, &fetched, || {
            is_open = false;
            close(&old);
            directory.adopt(&fetched, request)
        });
        let db = match restored {
            Ok(Some(db)) => Ok(db),
            Ok(None) if is_open => return Ok(()),
            Err(error) if is_open && has_log => {
                log::warn!("{self}: the log is replayed, since no snapshot can be read: {error}");
                return Ok(());
            }
            Err(error) if is_open => return Err(error),
            // The database was replaced by a snapshot that cannot be opened.
            Ok(None) if has_log => self.make_database(directory, request),
            Ok(None) => {
                self.origin.lock().set_newest(None);
                directory.remake(request)
            }
            Err(error) => directory.clear().and(Err(error)),
        };
        let directory = inner.take_directory()?;
        (inner.snapshots.log_bytes, inner.snapshots.is_restored) = (0, true);
        inner.open = Some(OpenDatabase::new(db?, directory));
        Ok(())
    }

    /// Returns whether the log after an epoch has at most the epochs that are retained without
    /// followers. A follower may retain thousands of epochs, and restoring a snapshot takes less
    /// time than their replay.
    fn is_recent(&self, applied: Option<Epoch>, request: &ViewRequest<'_>) -> Result<bool> {
        let Some(applied) = applied else {
            return Ok(false);
        };
        let behind = request.epoch.0.saturating_sub(applied.0);
        if behind <= request.snapshots.retain_epochs {
            return Ok(true);
        }
        let snapshots = &self.root.snapshots;
        let found = snapshots.of_partition(&self.operator, self.number)?;
        let oldest = found.oldest_retained(RETAINED, request.epoch);
        Ok(oldest.is_none_or(|oldest| applied >= oldest))
    }

    /// Fetches the newest good snapshot and opens it with `adopt`.
    ///
    /// None if there is no snapshot, or no good one and the log is complete. Damaged snapshots are
    /// removed.
    fn newest_snapshot(
        &self,
        request: &ViewRequest<'_>,
        applied: Option<Epoch>,
        fetched: &Path,
        adopt: impl FnMut() -> Result<Arc<Database>>,
    ) -> Result<Option<Arc<Database>>> {
        let mut damaged = Vec::new();
        let restored = self.first_good(request, applied, fetched, adopt, &mut damaged)?;
        // The state is complete without the damaged snapshots. If they stayed, the garbage
        // collection would count them, and remove older snapshots and their log.
        for id in &damaged {
            self.snapshot_due_now.store(true, Ordering::Relaxed);
            match self.root.garbage.discard(id, request.run) {
                Ok(()) => log::warn!(
                    "{self}: the damaged snapshot of epoch {} is removed, the next one is taken \
                     at once",
                    id.epoch
                ),
                Err(error) => {
                    // The host may not own the partition yet. The next snapshot removes it.
                    self.origin.lock().suspect(id.clone());
                    log::warn!(
                        "{self}: the damaged snapshot of epoch {} stays until the next one is \
                         taken: {error}",
                        id.epoch
                    );
                }
            }
        }
        Ok(restored)
    }

    /// As [`PartitionState::newest_snapshot`], but adds damaged snapshots to `damaged` instead of
    /// removing them.
    fn first_good(
        &self,
        request: &ViewRequest<'_>,
        applied: Option<Epoch>,
        fetched: &Path,
        mut adopt: impl FnMut() -> Result<Arc<Database>>,
        damaged: &mut Vec<SnapshotId>,
    ) -> Result<Option<Arc<Database>>> {
        let newer = |id: &SnapshotId| {
            id.epoch < request.epoch && applied.is_none_or(|applied| id.epoch > applied)
        };
        let list = || -> Result<Vec<SnapshotId>> {
            let mut found: Vec<SnapshotId> = self
                .root
                .snapshots
                .list(&self.operator, self.number)?
                .into_iter()
                .filter(newer)
                .collect();
            found.sort_by_key(|id| self.suspect_rank(id));
            Ok(found)
        };
        // Without a snapshot the log must be complete.
        let first = applied.unwrap_or(request.first_epoch);
        let is_log_complete = || self.root.log.has_whole(first);
        let (mut candidates, mut reasons) = (list()?, String::new());
        while !candidates.is_empty() {
            for id in &candidates {
                if self.suspect_rank(id).is_some() && is_log_complete()? {
                    return Ok(None);
                }
                let (chain, is_log) = match self.decided_chain(request, id.epoch) {
                    Ok(chain) => (Ok(chain), false),
                    Err(error) => (Err(error), true),
                };
                match chain.and_then(|chain| self.restore_snapshot(id, chain, fetched, &mut adopt))
                {
                    Ok(db) => {
                        self.origin.lock().set_newest(Some(id.clone()));
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
                        // `StateMismatch`: the query has other stores; the snapshot is not damaged.
                        if !is_log
                            && error.kind() != ErrorKind::StateMismatch
                            && !damaged.contains(id)
                        {
                            damaged.push(id.clone());
                        }
                        log::warn!(
                            "{self}: the snapshot of epoch {} cannot be used: {error}",
                            id.epoch
                        );
                        reasons.push_str(&format!("; the snapshot of epoch {}: {error}", id.epoch));
                    }
                    Err(error) => return Err(error),
                }
            }
            // Another host that takes snapshots may have removed these candidates meanwhile. Then
            // there are newer ones.
            let now = list()?;
            if now.iter().all(|id| candidates.contains(id)) {
                break;
            }
            candidates = now;
        }
        if !candidates.is_empty() && !is_log_complete()? {
            let text = format!(
                "{self}: the log from epoch {first} on was removed, and no snapshot can be \
                 read{reasons}. Restore the root from a backup"
            );
            return Err(Error::new(ErrorKind::Restore, text));
        }
        Ok(None)
    }

    /// Fetches one snapshot, opens it, and checks that it has the state that its name says.
    fn restore_snapshot(
        &self,
        id: &SnapshotId,
        decided: Digest,
        fetched: &Path,
        adopt: &mut impl FnMut() -> Result<Arc<Database>>,
    ) -> Result<Arc<Database>> {
        let pace = ProgressPace::start();
        let other = |what: &str| Error::new(ErrorKind::Restore, format!("it holds {what}"));
        if decided != id.chain {
            return Err(other("another state than the one that was decided"));
        }
        remove_directory(fetched)?;
        let shown = self.restore.begin(RestoreSource::Snapshot);
        let transfer = self
            .root
            .snapshots
            .fetch(id, fetched, &|progress: SnapshotTransfer| {
                shown.set(progress.copied, progress.bytes);
                if progress.copied == 0 {
                    log::info!(
                        "{self}: restoring the snapshot of epoch {}: {} files, {}",
                        id.epoch,
                        progress.files,
                        bytes(progress.bytes)
                    );
                } else if let Some(elapsed) = pace.due() {
                    log::info!(
                        "{self}: snapshot of epoch {}: {}",
                        id.epoch,
                        bytes_so_far(progress.copied, progress.bytes, elapsed)
                    );
                }
            });
        if transfer.is_err()
            && let Err(left) = remove_directory(fetched)
        {
            log::warn!("{self}: a part of a snapshot is left on the disk: {left}");
        }
        let transfer = transfer?;
        let db = adopt()?;
        if !position::holds(&db, &self.query_id, id)? {
            close(&db);
            return Err(other("another state than its name says"));
        }
        self.origin.lock().set_bytes(transfer.bytes);
        log::info!(
            "{self}: restored the snapshot of epoch {}: {} files, {} in {:.2} s",
            id.epoch,
            transfer.files,
            bytes(transfer.bytes),
            pace.elapsed().as_secs_f64()
        );
        Ok(db)
    }

    fn suspect_rank(&self, id: &SnapshotId) -> Option<usize> {
        self.origin.lock().suspect_rank(id)
    }
}
