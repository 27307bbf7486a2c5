//! Applies decided epochs to the database, from the log or from memory.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use holdfast_core::{Database, Error, ErrorKind, Result, Timestamp, Transaction, VersionRow};

use super::local::position;
use super::prepared_epoch::PreparedEpoch;
use super::progress::{ProgressPace, epochs_so_far};
use super::state::{PartitionInner, PartitionState};
use super::view_request::ViewRequest;
use crate::log::{CHUNK_BYTES, Records};
use crate::protocol::{Digest, Epoch, ObjectId, PartitionDecision, RunNumber, Violation};
use crate::root::{Head, RanSince, Root};

/// How many epochs are read ahead of the one that is applied, if there is memory for them.
const LANES: usize = 4;

impl PartitionState {
    /// Applies the deciding objects of these epochs, both included, each as one commit.
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
        inner.opened()?.checked = Some(request.run);
        Ok(())
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
                if let Some(elapsed) = pace.due() {
                    log::info!(
                        "{self}: replayed {}",
                        epochs_so_far(done as u64 + 1, count as u64, records, elapsed)
                    );
                }
            }
            Ok(())
        })?;
        inner.prepared.drop_through(to);
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
            && let Some(prepared) = inner.prepared.take(epoch, base, decided.digest)
        {
            let bytes = prepared.transaction.uncommitted_bytes() as u64;
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

    /// Reads what an epoch is for this partition.
    fn read(&self, request: &ViewRequest<'_>, epoch: Epoch) -> Result<DecidedEpoch> {
        let decision = self.decision(request, epoch)?;
        let decided = decision.of(&self.operator, self.number).cloned();
        let ran = |ran: &RanSince| ran.operator == self.operator && ran.epoch <= epoch;
        if decided.is_none() && request.ran.as_ref().is_some_and(ran) {
            return Err(self.not_evaluated(epoch));
        }
        let head = match (&decided, decision.run) {
            (Some(decided), Some(run)) => Some(self.read_head(epoch, run, decided)?),
            _ => None,
        };
        Ok(DecidedEpoch {
            epoch,
            decided,
            head,
        })
    }

    /// Reads the object that decided an epoch, and checks that it is the one that was recorded.
    fn read_head(&self, epoch: Epoch, run: RunNumber, decided: &PartitionDecision) -> Result<Head> {
        let object = ObjectId {
            operator: self.operator.clone(),
            partition: self.number,
            run,
        };
        match self.root.log.head(epoch, &object)? {
            Some(head) if head.header.decision() == *decided => Ok(head),
            Some(_) => Err(self
                .root
                .violation(Violation::BrokenChain { object, epoch })),
            None => Err(self.missing(object, epoch)),
        }
    }

    /// Applies an epoch that was read; returns how many records it has.
    fn apply_read(&self, inner: &mut PartitionInner, read: DecidedEpoch) -> Result<u64> {
        let DecidedEpoch {
            epoch,
            decided,
            head,
        } = read;
        let db = inner.db()?;
        let base = position::chain(db)?;
        let Some(decided) = decided else {
            if base != Digest::ZERO {
                return Err(self.not_evaluated(epoch));
            }
            // The operator begins later.
            db.commit_transaction(db.begin()?, self.commit(epoch, base))?;
            return Ok(0);
        };
        if decided.base != base {
            let run = head.map_or(RunNumber(0), |head| head.header.run);
            return Err(self.root.violation(Violation::BrokenChain {
                object: ObjectId {
                    operator: self.operator.clone(),
                    partition: self.number,
                    run,
                },
                epoch,
            }));
        }
        let mut tx = db.begin()?;
        let (mut records, mut bytes) = (0, 0);
        if let Some(head) = &head {
            bytes = apply_object(&self.root, db, &mut tx, head)?;
            records = head.header.records;
        }
        db.commit_transaction(tx, self.commit(epoch, decided.chain()))?;
        inner.snapshots.log_bytes += bytes;
        Ok(records)
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

/// What a committed epoch is for one partition.
struct DecidedEpoch {
    epoch: Epoch,
    /// None if the decision does not name the operator.
    decided: Option<PartitionDecision>,
    /// None if no operator ran in the epoch.
    head: Option<Head>,
}

/// Stages everything in an object of the log; returns the bytes of its keys and values.
///
/// # Errors
/// `Restore` for an object that cannot be read.
pub fn apply_object(root: &Root, db: &Database, tx: &mut Transaction, head: &Head) -> Result<u64> {
    let mut bytes = 0;
    for chunk in &head.header.chunks {
        bytes += stage_records(db, tx, &root.log.chunk(&head.header, chunk)?)?;
    }
    bytes += stage_records(db, tx, &head.records)?;
    for (store, time) in &head.header.stream_times {
        db.apply_changes(store, tx, &[], Some(Timestamp(*time)))?;
    }
    Ok(bytes)
}

/// Stages records unconditionally: they were accepted when they were written, so their order does
/// not matter. Returns the bytes of their keys and values.
fn stage_records(db: &Database, tx: &mut Transaction, records: &Records) -> Result<u64> {
    let mut bytes = 0;
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
        bytes += (record.key.len() + record.value.map_or(0, <[u8]>::len)) as u64;
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
    flush(current, &mut rows, tx)?;
    Ok(bytes)
}
