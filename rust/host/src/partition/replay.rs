//! From the log (or from memory, where the same changes wait) into the database.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use holdfast_core::{Database, Error, ErrorKind, Result, Timestamp, Transaction, VersionRow};

use super::progress::{Pace, epochs_so_far};
use super::{Inner, PartitionState, Prepared, Wanted, chain};
use crate::log::{CHUNK_BYTES, HeadHeader, Records};
use crate::protocol::{Digest, Epoch, ObjectId, Violation};
use crate::root::{Head, Root};

/// So many epochs are read ahead of the one that is applied, where there is memory for it.
const LANES: usize = 4;

impl PartitionState {
    /// Applies the deciding objects of these epochs, both included, each as one commit.
    pub(super) fn roll_forward(
        &self,
        inner: &mut Inner,
        wanted: &Wanted<'_>,
        from: Epoch,
        to: Epoch,
    ) -> Result<()> {
        if from == to {
            self.apply(inner, wanted, from)?;
        } else {
            self.replay(inner, wanted, from, to)?;
        }
        inner.opened()?.checked = Some(wanted.run);
        Ok(())
    }

    /// Applies epochs from the log, the next ones of which are read meanwhile.
    fn replay(&self, inner: &mut Inner, wanted: &Wanted<'_>, from: Epoch, to: Epoch) -> Result<()> {
        let (pace, mut records) = (Pace::start(), 0);
        let count = usize::try_from(to.0.saturating_sub(from.0).saturating_add(1)).unwrap_or(0);
        log::info!("{self}: replaying the log, epochs {from} to {to}");
        let mut memory = wanted.memory.share();
        let lanes = (memory.room() / CHUNK_BYTES).clamp(1, LANES).min(count);
        memory.set(lanes * CHUNK_BYTES);
        thread::scope(|scope| -> Result<()> {
            let lane = |first: usize| {
                let (put, read) = mpsc::sync_channel(0);
                scope.spawn(move || {
                    let mut epochs = (from.0..=to.0).skip(first).step_by(lanes).map(Epoch);
                    // Nobody takes it any more once one could not be applied.
                    epochs.try_for_each(|epoch| put.send(self.read(wanted, epoch)).ok())
                });
                read
            };
            let read: Vec<mpsc::Receiver<Result<Head>>> = (0..lanes).map(lane).collect();
            for done in 0..count {
                let head = read[done % lanes]
                    .recv()
                    .map_err(|_| Error::new(ErrorKind::Restore, "the log's reader has ended"))?;
                records += self.apply_head(inner, &head?)?;
                if let Some(elapsed) = pace.due() {
                    log::info!(
                        "{self}: replayed {}",
                        epochs_so_far(done as u64 + 1, count as u64, records, elapsed)
                    );
                }
            }
            Ok(())
        })?;
        inner.prepared.retain(|prepared| prepared.epoch > to);
        log::info!(
            "{self}: epochs {from} to {to} restored in {:.2} s, {records} records",
            pace.elapsed().as_secs_f64()
        );
        Ok(())
    }

    /// Applies one epoch: usually what a session of this host has staged and kept.
    fn apply(&self, inner: &mut Inner, wanted: &Wanted<'_>, epoch: Epoch) -> Result<()> {
        let db = Arc::clone(inner.db()?);
        let base = chain(&db)?;
        if inner
            .prepared
            .iter()
            .any(|prepared| prepared.epoch == epoch && prepared.base == base)
        {
            let decided = self.decided(wanted, epoch)?;
            let kept = inner
                .prepared
                .iter()
                .find(|kept| (kept.epoch, kept.base, kept.run) == (epoch, base, decided.run));
            let digest = match kept {
                // It was put, or found to be the same, when this was kept: it need not be read.
                Some(kept) => kept.digest,
                None => {
                    let header = self
                        .root
                        .head_header(epoch, &decided)?
                        .ok_or_else(|| self.missing(decided.clone(), epoch))?;
                    self.check_base(&header, base)?;
                    header.digest
                }
            };
            if let Some(prepared) = inner.take_prepared(epoch, base, digest)
                && self.apply_prepared(&db, prepared)?
            {
                return Ok(());
            }
        }
        let (pace, restarted) = (Pace::start(), inner.opened()?.checked.is_none());
        let records = self.apply_head(inner, &self.read(wanted, epoch)?)?;
        if restarted || pace.due().is_some() {
            log::info!(
                "{self}: epoch {epoch} restored in {:.2} s, {records} records",
                pace.elapsed().as_secs_f64()
            );
        }
        Ok(())
    }

    /// The object that decided an epoch.
    fn read(&self, wanted: &Wanted<'_>, epoch: Epoch) -> Result<Head> {
        let decided = self.decided(wanted, epoch)?;
        self.root
            .head(&decided.operator, epoch, decided.partition, decided.run)?
            .ok_or_else(|| self.missing(decided.clone(), epoch))
    }

    /// Applies an object of the log; returns how many records it has.
    fn apply_head(&self, inner: &mut Inner, head: &Head) -> Result<u64> {
        let db = inner.db()?;
        self.check_base(&head.header, chain(db)?)?;
        let mut tx = db.begin()?;
        apply_object(&self.root, db, &mut tx, head)?;
        db.commit_transaction(tx, self.commit(head.header.epoch, head.header.chain()))?;
        Ok(head.header.records)
    }

    /// An object that decided an epoch is gone.
    pub(super) fn missing(&self, object: ObjectId, epoch: Epoch) -> Error {
        self.root.broken(Violation::ObjectMissing { object, epoch })
    }

    fn check_base(&self, header: &HeadHeader, base: Digest) -> Result<()> {
        if header.base == base {
            return Ok(());
        }
        Err(self.root.broken(Violation::BrokenChain {
            object: header.id(),
            epoch: header.epoch,
        }))
    }

    /// Commits what a session of this host has staged; false if it cannot be, then the log has it.
    fn apply_prepared(&self, db: &Database, prepared: Prepared) -> Result<bool> {
        let commit = self.commit(prepared.epoch, prepared.base.chain(prepared.digest));
        match db.commit_transaction(prepared.transaction, commit) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::InvalidState => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Stages all that an object holds.
///
/// # Errors
/// `Restore` for an object that cannot be read.
pub fn apply_object(root: &Root, db: &Database, tx: &mut Transaction, head: &Head) -> Result<()> {
    for chunk in &head.header.chunks {
        restore(db, tx, &root.chunk(&head.header, chunk)?)?;
    }
    restore(db, tx, &head.records)?;
    for (store, time) in &head.header.stream_times {
        db.apply_changes(store, tx, &[], Some(Timestamp(*time)))?;
    }
    Ok(())
}

impl Inner {
    /// The prepared changes that the deciding object has. All others, of this epoch or older, have
    /// lost.
    fn take_prepared(&mut self, epoch: Epoch, base: Digest, digest: Digest) -> Option<Prepared> {
        let mut chosen = None;
        for prepared in std::mem::take(&mut self.prepared) {
            if (prepared.epoch, prepared.base, prepared.digest) == (epoch, base, digest) {
                chosen = Some(prepared);
            } else if prepared.epoch > epoch {
                self.prepared.push(prepared);
            }
        }
        chosen
    }
}

/// Stages records as they are: they were accepted once, so there is no acceptance test and no
/// order.
fn restore(db: &Database, tx: &mut Transaction, records: &Records) -> Result<()> {
    let mut rows = Vec::new();
    let mut current: Option<&str> = None;
    let mut timed = false;
    let flush =
        |store: Option<&str>, rows: &mut Vec<VersionRow<'_>>, tx: &mut Transaction| -> Result<()> {
            if let Some(store) = store {
                db.apply_changes(store, tx, rows, None)?;
            }
            rows.clear();
            Ok(())
        };
    for record in records.iter() {
        if current != Some(record.store) {
            flush(current, &mut rows, tx)?;
            current = Some(record.store);
            timed = db
                .stores()
                .any(|spec| spec.name == record.store && spec.kind.restores_with_times());
        }
        let timestamp = match record.timestamp {
            Some(timestamp) => timestamp,
            None if timed => {
                let text =
                    "a log record of a store with times has none: restore log/ from a backup";
                return Err(Error::new(ErrorKind::Restore, text).store(record.store));
            }
            None => Timestamp(0),
        };
        rows.push(VersionRow {
            key: record.key,
            value: record.value,
            timestamp,
        });
    }
    flush(current, &mut rows, tx)
}
