//! Advances the database to the epoch before a session's epoch, and opens the session's view.

use std::path::Path;
use std::sync::Arc;

use holdfast_core::{Error, ErrorKind, Result};

use super::epochs::not_evaluated;
use super::local::{LocalDirectory, OpenDatabase, close, position};
use super::state::{PartitionInner, PartitionState};
use super::view::StateView;
use super::view_request::{ServedEpoch, ViewRequest};
use crate::protocol::{Digest, Epoch, OpenFacts, OpenStep, PlannedBatch, Violation, open_step};
use crate::root::{OffsetsFile, PreviousEpoch, SparkLogs};

impl PartitionState {
    /// Makes the previous epoch final, and opens a view of the state after it.
    ///
    /// Other sessions of the partition wait meanwhile.
    ///
    /// # Errors
    /// The protocol's violations; `Restore` for a log that cannot be replayed; `Io` if the
    /// disk fails.
    pub fn view(self: &Arc<Self>, request: &ViewRequest<'_>) -> Result<StateView> {
        let mut inner = self.lock();
        let result = self.advance(&mut inner, request).and_then(|offsets| {
            StateView::new(Arc::clone(inner.db()?), request.memory, Some(offsets))
        });
        if result.is_ok() {
            inner.served = Some(ServedEpoch::of(request));
            self.snapshot_if_due(&mut inner, request);
        }
        match result.as_ref().map_err(Error::kind) {
            // The retry opens the database again.
            Err(ErrorKind::StoreClosed | ErrorKind::Io) => inner.close(),
            Err(ErrorKind::StoreCorrupted) => self.discard_open(&mut inner),
            // Other hosts may have served the partition, taken a snapshot and removed the log
            // before it. The retry searches for that snapshot.
            Err(ErrorKind::Restore) => inner.open.iter_mut().for_each(|open| open.checked = None),
            _ => {}
        }
        result
    }

    /// Advances the database to the epoch before the request's, on a host that is about to take
    /// the partition over. Returns the last epoch in the database.
    ///
    /// # Errors
    /// As [`PartitionState::view`].
    pub fn prepare(&self, request: &ViewRequest<'_>) -> Result<Option<Epoch>> {
        let mut inner = self.lock();
        match self.advance(&mut inner, request) {
            Ok(_) => {}
            // The epoch was committed during the restore.
            Err(error) if error.kind() == ErrorKind::Fenced && inner.open.is_some() => {}
            Err(error) => {
                inner.close();
                return Err(error);
            }
        }
        self.applied(inner.db()?)
    }

    /// Takes the protocol's steps until the database is at the previous epoch. Returns Spark's
    /// offsets of the session's epoch.
    fn advance(
        &self,
        inner: &mut PartitionInner,
        request: &ViewRequest<'_>,
    ) -> Result<OffsetsFile> {
        self.check_lookahead(inner, request)?;
        let is_new = self.open(inner, request)?;
        if !is_new && (inner.opened()?.checked.is_none() || self.was_away(inner, request)?) {
            self.catch_up(inner, request)?;
        }
        let (mut facts, mut offsets) = self.facts(inner, request)?;
        loop {
            let step = open_step(&facts);
            if let (OpenStep::Ready | OpenStep::Apply { .. }, Some(previous)) =
                (&step, request.epoch.previous())
            {
                let is_staged = inner.prepared.has_of_run(previous, request.run);
                let ran = request.ran.as_ref();
                let decision = self.root.decisions.before_session(
                    request.run,
                    previous,
                    request.partitions,
                    PreviousEpoch { is_staged, ran },
                )?;
                let ran = ran.filter(|ran| decision.run.is_none() && ran.epoch <= previous);
                if let Some(ran) = ran {
                    // A host that did not know of the operator has recorded the epoch as skipped.
                    return Err(not_evaluated(&self.root, &ran.operator, previous));
                }
            }
            match step {
                OpenStep::Ready => {
                    return offsets.ok_or_else(|| {
                        let epoch = request.epoch;
                        self.root.violation(Violation::NoOffsets { epoch })
                    });
                }
                OpenStep::Apply { from, to } => {
                    self.roll_forward(inner, request, from, to)?;
                    if from == to {
                        // The usual micro-batch: Spark's logs were just read and need not be read
                        // again.
                        facts = OpenFacts {
                            applied: Some(to),
                            applied_decided: true,
                            ..facts
                        };
                        continue;
                    }
                }
                OpenStep::Rebuild { reason } => self.rebuild(inner, request, &reason)?,
                OpenStep::Error(Violation::StateAhead { applied, .. })
                    if self.root.log.was_taken_back(applied)? =>
                {
                    self.rebuild(
                        inner,
                        request,
                        "the state was taken back (`holdfast rewind`)",
                    )?;
                }
                OpenStep::Error(violation) => return Err(self.root.violation(violation)),
            }
            (facts, offsets) = self.facts(inner, request)?;
        }
    }

    /// Whether other hosts may have served the partition since this host last did.
    ///
    /// A host that serves every micro-batch lacks at most one epoch.
    fn was_away(&self, inner: &mut PartitionInner, request: &ViewRequest<'_>) -> Result<bool> {
        let next = self
            .applied(inner.db()?)?
            .map_or(request.first_epoch, Epoch::next);
        Ok(next.next() < request.epoch)
    }

    /// Checks, once per run, that the root holds no committed epochs that are newer than Spark's
    /// checkpoint.
    ///
    /// The local database does not prove this: it may be new, or may have lost changes that were
    /// not flushed.
    fn check_lookahead(&self, inner: &mut PartitionInner, request: &ViewRequest<'_>) -> Result<()> {
        if inner.lookahead_run == Some(request.run) {
            return Ok(());
        }
        // Read before Spark's logs, as `applied` is: see `OpenFacts`.
        let lookahead =
            self.root
                .lookahead(&self.operator, self.number, request.run, request.epoch)?;
        if let Some(applied) = lookahead.later_commit {
            let facts = self.facts_of(
                request,
                Some(applied),
                self.root.spark.logs(request.epoch)?,
                true,
            );
            if let OpenStep::Error(violation) = open_step(&facts) {
                return Err(self.root.violation(violation));
            }
        }
        inner.snapshots.newest = lookahead.snapshot;
        inner.lookahead_run = Some(request.run);
        Ok(())
    }

    /// Opens the database, if it is not open; returns whether a new one was made, other than by
    /// [`PartitionState::rebuild`].
    fn open(&self, inner: &mut PartitionInner, request: &ViewRequest<'_>) -> Result<bool> {
        if inner
            .open
            .as_ref()
            .is_some_and(|open| !open.directory.is_intact())
        {
            log::warn!("{self}: its local database was deleted; a new one is made from the root");
            inner.note_damage();
            inner.close();
        }
        // A store's settings, such as its retention, may change between two runs.
        if inner
            .open
            .as_ref()
            .is_some_and(|open| !open.db.stores().eq(request.stores))
        {
            log::info!("{self}: its stores' settings have changed; the database is opened again");
            inner.close();
        }
        if inner.open.is_some() {
            return Ok(false);
        }
        let unusable = |path: &Path, error: &Error| {
            let path = path.display();
            if error.kind() == ErrorKind::StoreCorrupted {
                log::error!(
                    "{self}: the local database {path} is damaged ({error}); a new one is made \
                     from the log"
                );
                inner.note_damage();
                self.mark_suspect();
            } else {
                log::info!("{self}: instead of {path} a new local database is made: {error}");
                inner.rebuilds += 1;
            }
        };
        let mut is_new = false;
        let (db, directory) = LocalDirectory::open(&self.home, request, unusable, |directory| {
            is_new = true;
            self.make_database(directory, request)
        })?;
        inner.open = Some(OpenDatabase::new(db, directory));
        if is_new {
            let has_state = request.epoch > request.first_epoch;
            (inner.snapshots.log_bytes, inner.snapshots.is_restored) = (0, has_state);
        }
        // After a restart, a store in memory is empty, and a database with such a store has no
        // offset. The properties of the last commit are still there.
        if self.applied(inner.db()?)?.is_none() && position::chain(inner.db()?)? != Digest::ZERO {
            self.rebuild(inner, request, "its stores in memory are lost")?;
        }
        let query = position::query(inner.db()?)?;
        if query.is_some_and(|query| query != self.query_id.as_bytes()) {
            self.rebuild(inner, request, "it holds the state of another query")?;
        }
        Ok(is_new)
    }

    /// Reads the facts of the protocol, and Spark's offsets of the session's epoch.
    fn facts(
        &self,
        inner: &mut PartitionInner,
        request: &ViewRequest<'_>,
    ) -> Result<(OpenFacts, Option<OffsetsFile>)> {
        // The order matters, see `OpenFacts`: `applied` first, then Spark's logs.
        let applied = self.applied(inner.db()?)?;
        let logs = self.root.spark.logs(request.epoch)?;
        let SparkLogs {
            offsets,
            committed,
            previous_committed,
        } = logs;
        let behind = applied.filter(|applied| {
            *applied < request.epoch && previous_committed && !committed && offsets.is_some()
        });
        let applied_decided = match behind {
            Some(applied) => self.holds_the_decided(inner, request, applied)?,
            None => true,
        };
        let facts = self.facts_of(request, applied, logs, applied_decided);
        Ok((facts, offsets))
    }

    fn facts_of(
        &self,
        request: &ViewRequest<'_>,
        applied: Option<Epoch>,
        logs: SparkLogs,
        applied_decided: bool,
    ) -> OpenFacts {
        OpenFacts {
            operator: self.operator.clone(),
            partition: self.number,
            epoch: request.epoch,
            first_epoch: request.first_epoch,
            applied,
            applied_decided,
            previous_committed: logs.previous_committed,
            committed: logs.committed,
            has_offsets: logs.offsets.is_some(),
            planned: PlannedBatch {
                plan: request.planned_at,
                file: logs.offsets.and_then(|file| file.batch_timestamp),
            },
        }
    }

    /// Whether the database's last epoch came from the object that decided that epoch.
    ///
    /// This is checked once for each run and each opening of the database. After that, only decided
    /// objects enter the database.
    fn holds_the_decided(
        &self,
        inner: &mut PartitionInner,
        request: &ViewRequest<'_>,
        applied: Epoch,
    ) -> Result<bool> {
        let open = inner.opened()?;
        if open.checked == Some(request.run) {
            return Ok(true);
        }
        let chain = position::chain(&open.db)?;
        let same = self.decided_chain(request, applied)? == chain;
        if same {
            open.checked = Some(request.run);
        }
        Ok(same)
    }

    /// Discards the local database and makes a new one.
    fn rebuild(
        &self,
        inner: &mut PartitionInner,
        request: &ViewRequest<'_>,
        reason: &str,
    ) -> Result<()> {
        log::warn!("{self}: a new local database is made from the root: {reason}");
        inner.rebuilds += 1;
        // The newest snapshot may be of an epoch that was taken back.
        inner.snapshots.newest = None;
        if let Some(OpenDatabase {
            db, mut directory, ..
        }) = inner.open.take()
        {
            inner.drop_changes();
            close(&db);
            let db = self.make_database(&mut directory, request)?;
            (inner.snapshots.log_bytes, inner.snapshots.is_restored) = (0, true);
            inner.open = Some(OpenDatabase::new(db, directory));
        }
        Ok(())
    }
}
