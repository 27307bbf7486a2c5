//! Finds where the rows of a read come from, and which state they are of; reads copies.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use holdfast_core::{Database, Error, ErrorKind, Result, Transaction};

use super::copies::{HeldCopy, ReplicaSource};
use super::read_from::{AnswerState, Offline, ReadFrom};
use super::read_source::ReadSource;
use super::state_reader::StateReader;
use super::table_catalog::NamedTable;
use crate::memory::budget::Budget;
use crate::partition::{STAGE_IDLE, StagedEpoch, StagedSource};
use crate::protocol::{Digest, Epoch, PartitionDecision, PartitionId};
use crate::tables::{EmitRows, ReadCall};

/// How long a reader that may not use copies waits before it asks the hosts again.
const RETRY: Duration = Duration::from_millis(50);
/// How many times hosts are asked again if their epoch is older than the newest final one.
const ASKED_AGAIN: u32 = 2;
/// The pause before hosts are asked again if the root is in an object store: a host reads Spark's
/// commit log there at most twice a second.
const REMOTE_PAUSE: Duration = Duration::from_millis(500);

impl StateReader {
    /// Finds where the rows of partitions are read, and at which epoch. `lanes`: the connections to
    /// each host that answer at the same time.
    pub(super) fn source(
        &self,
        known: &NamedTable,
        (partitions, lanes): (&[PartitionId], usize),
        from: ReadFrom,
    ) -> Result<ReadSource> {
        let started = Instant::now();
        let level = from.isolation_level(known.entry.isolation_level)?;
        let at = |epoch, behind| AnswerState {
            epoch,
            isolation_level: level,
            behind,
        };
        let least = match (from.exactly, from.at_least) {
            (Some(epoch), _) => epoch,
            (None, Some(least)) => self.epochs.newest_at_least(least, from.timeout)?,
            (None, None) => Epoch(0),
        };
        // Without partitions, there is nothing to ask a host for.
        let asks_hosts = from.offline != Offline::Only && !partitions.is_empty();
        if asks_hosts {
            self.note_commit();
        }
        let mut again = ASKED_AGAIN;
        loop {
            if asks_hosts
                && let Some(views) = self
                    .hosts
                    .pin(&known.operator, (partitions, lanes), level)?
            {
                let fits = match from.exactly {
                    Some(epoch) => views.epoch() == epoch,
                    None => views.epoch() >= least && self.is_newest_seen(views.epoch())?,
                };
                let at_hosts = views.epoch();
                if fits
                    && let Some(decision) = self.epochs.find(at_hosts)?
                    && views.are_of(&known.operator, &decision)
                {
                    return Ok(ReadSource {
                        state: at(at_hosts, 0),
                        decision,
                        views: Some(views),
                        timeout: from.timeout,
                    });
                }
                views.release();
                if from.offline == Offline::Never
                    && let Some(epoch) = from.exactly.filter(|epoch| *epoch < at_hosts)
                {
                    let text = format!(
                        "state hosts have epoch {at_hosts}, and no longer epoch {epoch}: \
                         offline=\"auto\" reads it from snapshots and log"
                    );
                    return Err(Error::new(ErrorKind::InvalidValue, text));
                }
                // Usually Spark has committed an epoch after the hosts had checked. Or another
                // host serves a partition now, which only a listing shows.
                if from.exactly.is_none() && again > 0 && started.elapsed() < from.timeout {
                    again -= 1;
                    if again == 0 {
                        self.hosts.find_again(&known.operator, partitions);
                    }
                    if !self.root.is_local() {
                        std::thread::sleep(REMOTE_PAUSE);
                    }
                    continue;
                }
            }
            if !asks_hosts || from.offline != Offline::Never {
                break;
            }
            if started.elapsed() >= from.timeout {
                let text = format!(
                    "no state host of operator {} has the wanted epoch within {} s: is the query \
                     running? offline=\"auto\" reads without a host",
                    known.operator,
                    from.timeout.as_secs_f64()
                );
                return Err(Error::new(ErrorKind::NotUpToBound, text).path(self.root.path()));
            }
            std::thread::sleep(RETRY);
        }
        let of_copies = |epoch, behind| {
            Ok(ReadSource {
                state: at(epoch, behind),
                decision: self.epochs.decision(epoch)?,
                views: None,
                timeout: from.timeout,
            })
        };
        if let Some(epoch) = from.exactly {
            self.epochs.check_final(epoch)?;
            return of_copies(epoch, 0);
        }
        let newest = self.epochs.newest_final()?.max(least);
        let held = if from.stale_ok {
            self.replicas.held(&known.operator, partitions)?
        } else {
            None
        };
        // An epoch that a rewind has taken back is not read.
        let stale = held.filter(|held| (least..newest).contains(held));
        match stale {
            Some(held) if self.epochs.find(held)?.is_some() => {
                of_copies(held, newest.0.abs_diff(held.0))
            }
            _ => of_copies(newest, 0),
        }
    }

    /// Reads rows of the reader's own copy of a partition. A copy that turns out to be damaged is
    /// made again: a cleaner of temporary folders may have deleted its files. Other reads of the
    /// copy then find its database closed. A read is repeated once, if it has given no rows yet.
    pub(super) fn read_copy(
        &self,
        source: &ReadSource,
        known: &NamedTable,
        partition: PartitionId,
        call: &ReadCall,
        batch: &RecordBatch,
        emit: &mut EmitRows<'_>,
    ) -> Result<()> {
        let mut has_rows = false;
        let mut noted = |rows| {
            has_rows = true;
            emit(rows)
        };
        match self.read_copy_once(source, known, partition, (call, batch), &mut noted) {
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::StoreCorrupted | ErrorKind::StoreClosed
                ) && !has_rows =>
            {
                log::warn!("the copy of partition {partition} is read again: {error}");
                self.read_copy_once(source, known, partition, (call, batch), emit)
            }
            done => done,
        }
    }

    fn read_copy_once(
        &self,
        source: &ReadSource,
        known: &NamedTable,
        partition: PartitionId,
        (call, batch): (&ReadCall, &RecordBatch),
        emit: &mut EmitRows<'_>,
    ) -> Result<()> {
        let mut view = self.copy(known, partition, source)?;
        let database = (&*view.db, &mut view.transaction);
        let mut memory = Budget::new(usize::MAX).share();
        let read = known.table.read(database, call, batch, &mut memory, emit);
        if let Err(error) = &read
            && error.kind() == ErrorKind::StoreCorrupted
        {
            view.note_damage();
        }
        read
    }

    /// Returns a view of the reader's own copy of a partition.
    ///
    /// # Errors
    /// As [`super::copies::Replicas::view`]; `Restore` if a rewind took the epoch back since the
    /// read began.
    fn copy(
        &self,
        known: &NamedTable,
        partition: PartitionId,
        from: &ReadSource,
    ) -> Result<CopyView> {
        let source = ReplicaSource {
            root: Arc::clone(&self.root),
            query_id: self.query_id.clone(),
            operator: known.operator.clone(),
            partition,
            first_epoch: known.entry.first_epoch,
            stores: known.entry.stores.clone(),
        };
        let (state, decision) = (from.state, &from.decision);
        // All partitions use the decision of the beginning of the read.
        let decide = |epoch| {
            if epoch == state.epoch {
                return Ok(Arc::clone(decision));
            }
            self.epochs.decision(epoch)
        };
        let at = (state.epoch, from.timeout);
        let (view, held) = self.replicas.view(source, at, &decide)?;
        if state.isolation_level.is_committed() {
            return Ok(CopyView {
                db: view.db,
                transaction: view.transaction,
                _staged: None,
                held,
            });
        }
        let decided = decision.of(&known.operator, partition);
        let source = StagedSource {
            root: &self.root,
            operator: &known.operator,
            partition,
            epoch: state.epoch,
            chain: decided.map_or(Digest::ZERO, PartitionDecision::chain),
            memory: self.replicas.staging(),
        };
        let (transaction, staged) = view.staged.view(&source, &view.db, view.transaction)?;
        // The next read may use the staged changes soon. Otherwise their memory is freed.
        view.staged.drop_when_unused(STAGE_IDLE);
        Ok(CopyView {
            db: view.db,
            transaction,
            _staged: staged,
            held,
        })
    }
}

/// A view of a reader's own copy of a partition.
pub(super) struct CopyView {
    pub(super) db: Arc<Database>,
    pub(super) transaction: Transaction,
    /// Holds the memory of the staged changes of the next epoch.
    _staged: Option<Arc<StagedEpoch>>,
    /// Dropped last, because the copy may then be deleted.
    held: HeldCopy,
}

impl CopyView {
    /// Records that a read has found the copy damaged: the next view makes it again.
    pub(super) fn note_damage(&self) {
        self.held.replica().lock().note_damage(&self.db);
    }
}
