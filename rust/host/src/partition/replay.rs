//! Applies decided epochs to the database, from the log or from memory.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use holdfast_core::{Database, Error, ErrorKind, Result};

use super::epochs::{DecidedEpoch, PreparedEpoch, not_evaluated};
use super::local::position;
use super::progress::{ProgressPace, epochs_so_far};
use super::state::{PartitionInner, PartitionState};
use super::view_request::ViewRequest;
use crate::log::CHUNK_BYTES;
use crate::net::metrics::RestoreSource;
use crate::protocol::{Epoch, Violation};
use crate::root::RanSince;

/// How many epochs are read ahead of the one that is applied, if there is memory for them.
const LANES: usize = 4;

impl PartitionState {
    /// Applies the changes of the epochs `from` to `to`, both included, as the deciding runs staged
    /// them, each epoch as one commit. Then flushes the database if that is due.
    pub(super) fn roll_forward(
        &self,
        inner: &mut PartitionInner,
        request: &ViewRequest<'_>,
        from: Epoch,
        to: Epoch,
    ) -> Result<()> {
        if from == to {
            self.apply(inner, request, from)?;
        } else {
            self.replay(inner, request, from, to)?;
        }
        if let Some(staged) = inner.staged.take_through(to) {
            inner.dropped.add(staged);
        }
        let open = inner.opened()?;
        open.checked = Some(request.run);
        open.flush_if_due(request.flushes)
    }

    /// Applies epochs from the log, and reads the next ones meanwhile.
    fn replay(
        &self,
        inner: &mut PartitionInner,
        request: &ViewRequest<'_>,
        from: Epoch,
        to: Epoch,
    ) -> Result<()> {
        let (pace, mut records) = (ProgressPace::start(), 0);
        let count = usize::try_from(to.0.saturating_sub(from.0).saturating_add(1)).unwrap_or(0);
        log::info!("{self}: replaying the log, epochs {from} to {to}");
        let shown = self.restore.begin(RestoreSource::Log);
        shown.set(0, count as u64);
        let mut memory = request.memory.share();
        let lanes = (memory.room() / CHUNK_BYTES).clamp(1, LANES).min(count);
        memory.set(lanes * CHUNK_BYTES);
        thread::scope(|scope| -> Result<()> {
            let lane = |first: usize| {
                let (put, read) = mpsc::sync_channel(0);
                scope.spawn(move || {
                    let mut epochs = (from.0..=to.0).skip(first).step_by(lanes).map(Epoch);
                    // The receiver is gone after an epoch could not be applied.
                    epochs.try_for_each(|epoch| put.send(self.read(request, epoch)).ok())
                });
                read
            };
            let read: Vec<mpsc::Receiver<Result<DecidedEpoch>>> = (0..lanes).map(lane).collect();
            for done in 0..count {
                self.root.check_running()?;
                let epoch = read[done % lanes]
                    .recv()
                    .map_err(|_| Error::new(ErrorKind::Restore, "the log's reader has ended"))?;
                records += self.apply_read(inner, epoch?)?;
                shown.set(done as u64 + 1, count as u64);
                if let Some(elapsed) = pace.due() {
                    log::info!(
                        "{self}: replayed {}",
                        epochs_so_far(done as u64 + 1, count as u64, records, elapsed)
                    );
                }
            }
            Ok(())
        })?;
        inner.prepared.drop_through(to, &mut inner.dropped);
        log::info!(
            "{self}: epochs {from} to {to} restored in {:.2} s, {records} records",
            pace.elapsed().as_secs_f64()
        );
        Ok(())
    }

    /// Applies one epoch; usually a session of this host has staged it and it is in memory.
    fn apply(
        &self,
        inner: &mut PartitionInner,
        request: &ViewRequest<'_>,
        epoch: Epoch,
    ) -> Result<()> {
        let db = Arc::clone(inner.db()?);
        let base = position::chain(&db)?;
        let decision = self.decision(request, epoch)?;
        // A task of this run was acknowledged, so its object was durable and has been lost.
        if decision.run.is_none() && inner.prepared.has_of_run(epoch, request.run) {
            return Err(self.root.violation(Violation::LogLost {
                epoch,
                lost: format!("the object of {self}"),
            }));
        }
        if let Some(decided) = decision.of(&self.operator, self.number)
            && let Some(mut prepared) =
                inner
                    .prepared
                    .take(epoch, (base, decided.digest), &mut inner.dropped)
        {
            if prepared.transaction.has_spilled() {
                // Holds the spilled files beyond the commit, so that they are deleted without the
                // lock.
                inner.dropped.add(prepared.transaction.reader());
            }
            let bytes = prepared.bytes;
            if self.apply_prepared(&db, prepared)? {
                inner.snapshots.log_bytes += bytes;
                return Ok(());
            }
        }
        let (pace, restarted) = (ProgressPace::start(), inner.opened()?.checked.is_none());
        let records = self.apply_read(inner, self.read(request, epoch)?)?;
        if restarted || pace.due().is_some() {
            log::info!(
                "{self}: epoch {epoch} restored in {:.2} s, {records} records",
                pace.elapsed().as_secs_f64()
            );
        }
        Ok(())
    }

    /// Reads the result of an epoch for this partition.
    fn read(&self, request: &ViewRequest<'_>, epoch: Epoch) -> Result<DecidedEpoch> {
        let decision = self.decision(request, epoch)?;
        let is_decided = decision.of(&self.operator, self.number).is_some();
        let ran = |ran: &RanSince| ran.operator == self.operator && ran.epoch <= epoch;
        if !is_decided && request.ran.as_ref().is_some_and(ran) {
            return Err(not_evaluated(&self.root, &self.operator, epoch));
        }
        DecidedEpoch::read(&self.root, &self.operator, self.number, &decision)
    }

    /// Applies an epoch that was read; returns how many records it has.
    fn apply_read(&self, inner: &mut PartitionInner, read: DecidedEpoch) -> Result<u64> {
        let applied = read.apply(&self.root, inner.db()?, &self.query_id)?;
        inner.snapshots.log_bytes += applied.bytes;
        Ok(applied.records)
    }

    /// Commits a prepared epoch; false if it cannot be committed, and must be read from the log.
    fn apply_prepared(&self, db: &Database, prepared: PreparedEpoch) -> Result<bool> {
        let commit = self.commit(prepared.epoch, prepared.base.chain(prepared.digest));
        match db.commit_transaction(prepared.transaction, commit) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::InvalidState => Ok(false),
            Err(error) => Err(error),
        }
    }
}
