//! `log/<epoch>/decided.<r>`: the result of each epoch, recorded once.
//!
//! [`EpochDecisions`] finds the decision of an epoch that Spark has committed. It reads the record
//! (`record.rs`); the first host that finds none decides by the epoch's objects and puts the record
//! (`deciding.rs`). Epochs without objects are recorded as skipped (`skipping.rs`).

mod deciding;
mod evaluated;
mod record;
mod skipping;
mod undecided;

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_core::Result;
use parking_lot::Mutex;

use super::epoch_log::EpochLog;
use super::objects::Objects;
use super::operator_catalog::OperatorCatalog;
use super::spark_checkpoint::SparkCheckpoint;
use crate::protocol::{
    Digest, Epoch, EpochDecision, OffsetsDifference, OperatorName, RunNumber, Violation,
};

/// How many decisions of a root a host holds in memory.
const CACHED: usize = 64;

/// The decisions of a root.
#[derive(Debug)]
pub struct EpochDecisions {
    objects: Arc<Objects>,
    log: Arc<EpochLog>,
    spark: Arc<SparkCheckpoint>,
    operators: Arc<OperatorCatalog>,
    /// The partitions of a host need the same decision at the same time: the first one reads it,
    /// and the others wait.
    cached: Mutex<BTreeMap<Epoch, Arc<Mutex<Option<CachedDecision>>>>>,
}

/// The requester of a decision: a session, or by default a command.
#[derive(Clone, Copy, Debug, Default)]
pub struct DecisionAsker<'a> {
    /// The session's run.
    pub run: Option<RunNumber>,
    /// What the session's host knows of the epoch before the session's.
    pub previous: PreviousEpoch<'a>,
}

/// What a session's host knows of the epoch before the session's own.
#[derive(Clone, Copy, Debug, Default)]
pub struct PreviousEpoch<'a> {
    /// A task of the session's run has staged the epoch on this host.
    pub is_staged: bool,
    /// An operator that ran in the epoch. If the epoch then has no objects, that is an error.
    pub ran: Option<&'a RanSince>,
}

/// An operator that ran in each epoch from `epoch` on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RanSince {
    /// The operator.
    pub operator: OperatorName,
    /// The first epoch in which it ran.
    pub epoch: Epoch,
}

/// A decision as a run found it. Only `holdfast rewind`, which claims a newer run, can replace it.
#[derive(Debug)]
struct CachedDecision {
    run: RunNumber,
    decision: Arc<EpochDecision>,
    /// Whether Spark's offsets were compared with the decision.
    offsets_checked: bool,
}

impl EpochDecisions {
    /// The decisions of a root.
    pub(super) fn new(
        objects: Arc<Objects>,
        log: Arc<EpochLog>,
        spark: Arc<SparkCheckpoint>,
        operators: Arc<OperatorCatalog>,
    ) -> Self {
        Self {
            objects,
            log,
            spark,
            operators,
            cached: Mutex::default(),
        }
    }

    /// Returns the decision of an epoch that Spark has committed, for a session of `run`.
    ///
    /// # Errors
    /// `StateMismatch` if only a part of the plan was evaluated, or if Spark's offsets have changed
    /// since; `Restore` for an object that is damaged or lost; `Fenced` if a rewind took the epoch
    /// back after the run began; `Io` if the disk fails.
    pub fn of(&self, run: RunNumber, epoch: Epoch, partitions: u32) -> Result<Arc<EpochDecision>> {
        self.cached_or(run, epoch, partitions, None)
    }

    /// As [`EpochDecisions::of`], for the epoch before a session's. Also checks that Spark's
    /// offsets of that epoch are still those that it was computed from.
    ///
    /// # Errors
    /// As [`EpochDecisions::of`]; `StateMismatch` also if the file of the offsets is missing. If
    /// the epoch has no objects: `Restore` if it was staged, `StateMismatch` if an operator ran in
    /// it.
    pub fn before_session(
        &self,
        run: RunNumber,
        epoch: Epoch,
        partitions: u32,
        previous: PreviousEpoch<'_>,
    ) -> Result<Arc<EpochDecision>> {
        self.cached_or(run, epoch, partitions, Some(previous))
    }

    fn cached_or(
        &self,
        run: RunNumber,
        epoch: Epoch,
        partitions: u32,
        session: Option<PreviousEpoch<'_>>,
    ) -> Result<Arc<EpochDecision>> {
        let asking = DecisionAsker {
            run: Some(run),
            previous: session.unwrap_or_default(),
        };
        let slot = self.slot(epoch);
        let mut slot = slot.lock();
        let cached = match slot.take().filter(|cached| cached.run == run) {
            Some(cached) => cached,
            None => CachedDecision {
                run,
                decision: Arc::new(self.read_or_decide(asking, epoch, partitions)?),
                offsets_checked: false,
            },
        };
        let cached = slot.insert(cached);
        if session.is_some() && !cached.offsets_checked {
            let file = self.spark.offsets(epoch)?.map(|file| file.digest);
            self.check_offsets(epoch, cached.decision.offsets, file)?;
            cached.offsets_checked = true;
        }
        Ok(Arc::clone(&cached.decision))
    }

    fn slot(&self, epoch: Epoch) -> Arc<Mutex<Option<CachedDecision>>> {
        let mut cached = self.cached.lock();
        let slot = Arc::clone(cached.entry(epoch).or_default());
        while cached.len() > CACHED {
            cached.pop_first();
        }
        slot
    }

    /// Checks that Spark's offsets of a committed epoch have the digest that the epoch's objects or
    /// decision name.
    fn check_offsets(&self, epoch: Epoch, recorded: Digest, file: Option<Digest>) -> Result<()> {
        if file == Some(recorded) {
            return Ok(());
        }
        Err(self.objects.violation(Violation::OffsetsChanged {
            epoch,
            difference: OffsetsDifference::Content { recorded, file },
        }))
    }
}
