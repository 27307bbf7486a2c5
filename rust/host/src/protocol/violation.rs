//! What the protocol refuses, with the complete messages for the user.

use std::path::Path;

use holdfast_core::{Error, ErrorKind};
use thiserror::Error;

use super::claim::Fenced;
use super::number::{Epoch, PartitionId, RunNumber};
use super::object::ObjectId;
use super::offsets_difference::OffsetsDifference;
use super::operator::OperatorName;
use super::violation_advice::{or_deleted, repeatable_advice, some_of, superseded_by};

/// The reason why a host refuses a step: the step would break a rule of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Violation {
    /// A newer run of the query has claimed its number.
    #[error("run {} of this query was superseded by run {} ({}",
        .0.mine, .0.newer.number, superseded_by(&.0.newer))]
    Fenced(Fenced),

    /// A run began with an epoch that is committed.
    #[error(
        "run {run_id} begins with epoch {epoch}, which Spark has already committed: another \
         driver runs the same query and was faster. Stop this one"
    )]
    ClaimRefused {
        /// The epoch.
        epoch: Epoch,
        /// Spark's run id.
        run_id: String,
    },

    /// A task of an epoch that is already committed.
    #[error(
        "Spark has already committed epoch {epoch}: this task (of a stale driver, or a second \
         attempt) is too late and not needed"
    )]
    AlreadyCommitted {
        /// The epoch.
        epoch: Epoch,
    },

    /// Spark's offset log beside the state lacks the epoch.
    #[error(
        "Spark works on epoch {epoch}, but the state's root holds no offsets of it \
         (query/offsets/{epoch}): the query keeps its checkpoint elsewhere, or this machine \
         (<machine>) does not see the driver's folder, or the query runs with asynchronous \
         progress tracking, which Holdfast cannot work with. Start it with \
         .option(\"checkpointLocation\", state.checkpoint_location), and give State a root that \
         driver and executors share"
    )]
    NoOffsets {
        /// The epoch.
        epoch: Epoch,
    },

    /// The checkpoint beside the state belongs to another query.
    #[error(
        "the state belongs to query {expected}, but the checkpoint beside it (query/metadata) is \
         of {}: one of the two was copied or deleted. Put the right checkpoint back, or start \
         with a new root; nothing was changed",
        .found.as_deref().map_or_else(|| "no query".to_owned(), |id| format!("query {id}"))
    )]
    OtherQuery {
        /// The query of `meta.json` or of the request.
        expected: String,
        /// The query of Spark's metadata, if there is one.
        found: Option<String>,
    },

    /// Spark's checkpoint has epochs, the state has none.
    #[error(
        "the root holds Spark's checkpoint, which is at epoch {epoch}, but no state (meta.json \
         is missing): the state was deleted, or epochs before this one ran without it. Put the \
         state back, or start with a new root, which reads the sources from their beginning. A \
         sink that skips the epochs it has (Spark's file sink, Delta) also needs a new output path"
    )]
    StateMissing {
        /// The epoch that Spark works on.
        epoch: Epoch,
    },

    /// Spark's commit log lacks the epoch before.
    #[error(
        "Spark works on epoch {epoch}, but its commit log does not hold epoch {previous} \
         (query/commits/{previous}): the checkpoint was changed by hand, or the query runs with \
         asynchronous progress tracking, which Holdfast cannot work with. Restore the file, or \
         rewind with `holdfast rewind <root> --epoch N`: the commit log must hold epoch N - 1"
    )]
    PreviousNotCommitted {
        /// The epoch that Spark works on.
        epoch: Epoch,
        /// The epoch before.
        previous: Epoch,
    },

    /// The state is ahead of Spark by more than a lost commit explains.
    #[error(
        "operator {operator}, partition {partition}: the state is at epoch {applied}, but \
         Spark works on epoch {epoch}: an older checkpoint was restored. Take the state back, too, \
         with `holdfast rewind <root> --epoch {epoch}`, or restore the newer checkpoint"
    )]
    StateAhead {
        /// The operator.
        operator: OperatorName,
        /// The partition.
        partition: PartitionId,
        /// The last epoch in the state.
        applied: Epoch,
        /// The epoch that Spark works on.
        epoch: Epoch,
    },

    /// The operator first took part in a later epoch than the one that Spark works on.
    #[error(
        "operator {operator} began with epoch {first_epoch}, but Spark works on epoch {epoch}: an \
         older checkpoint was restored, or `holdfast rewind` was interrupted. Take the state back \
         with `holdfast rewind <root> --epoch {epoch}`, or restore the newer checkpoint"
    )]
    BegunLater {
        /// The operator.
        operator: OperatorName,
        /// The epoch in which it first took part.
        first_epoch: Epoch,
        /// The epoch that Spark works on.
        epoch: Epoch,
    },

    /// The operator took part in an epoch before its first one.
    #[error(
        "operator {operator}: operators/{operator}.json says that it began with epoch \
         {first_epoch}, but it took part in epoch {earlier}: a superseded run wrote the file \
         last, or it was changed by hand. Restore it from a backup"
    )]
    BegunEarlier {
        /// The operator.
        operator: OperatorName,
        /// The epoch in which it first took part, as the root says.
        first_epoch: Epoch,
        /// The earlier epoch.
        earlier: Epoch,
    },

    /// Spark's offsets of an epoch are not those that the epoch was computed from.
    #[error(
        "Spark's offsets of epoch {epoch} (query/offsets/{epoch}) have changed: {difference}. Two \
         drivers wrote the checkpoint, or it was restored from a backup. Stop the other driver, \
         and restore the checkpoint that belongs to the state; or compute the epoch again with \
         `holdfast rewind <root> --epoch {epoch}`"
    )]
    OffsetsChanged {
        /// The epoch.
        epoch: Epoch,
        /// What differs.
        difference: OffsetsDifference,
    },

    /// A job was still running when its epoch ended.
    #[error(
        "{object}, epoch {epoch}: the micro-batch ended before this job did, so the epoch's result \
         lacks this job's changes: join your threads before the foreachBatch function returns"
    )]
    EpochEnded {
        /// The object.
        object: ObjectId,
        /// The epoch.
        epoch: Epoch,
    },

    /// Spark has lost the commit of an epoch and computes it again. A session's results differ from
    /// those that were decided.
    #[error(
        "{object}, epoch {epoch}: Spark committed this epoch before, its output is in the sink, \
         and this run's results differ from it (changed code, or results that depend on the \
         clock, on random numbers or on row order). Start the old code once, or compute the epoch \
         again with `holdfast rewind <root> --epoch {epoch}` if the sink may get the epoch twice"
    )]
    DecisionNotReproduced {
        /// This run's object.
        object: ObjectId,
        /// The epoch.
        epoch: Epoch,
    },

    /// Spark committed an epoch of which only some partitions were computed.
    #[error(
        "epoch {epoch} was committed by Spark, but its plan was evaluated only in part (run \
         {run}{}): take, show, head or isEmpty in foreachBatch compute some partitions and leave \
         the state of the others behind. Evaluate the whole DataFrame in every epoch (write it, \
         or count it), then take the epoch back with `holdfast rewind <root> --epoch {epoch}`. \
         {}",
        some_of(.missing), or_deleted(*.epoch)
    )]
    EvaluatedInPart {
        /// The epoch.
        epoch: Epoch,
        /// The highest run that has objects of the epoch, or the one that contradicts a whole run.
        run: RunNumber,
        /// What that run lacks; empty if it contradicts a whole run.
        missing: Vec<(OperatorName, PartitionId)>,
    },

    /// Spark committed an epoch in which the operator was not evaluated.
    #[error(
        "epoch {epoch} was committed by Spark, but operator {operator} was not evaluated in it: \
         the sink (foreachBatch?) did not use its DataFrame, or the query ran without it. \
         Evaluate it in every epoch, then take the epoch back with `holdfast rewind <root> \
         --epoch {epoch}`. A sink that skips the epochs it has (Spark's file sink, Delta) \
         evaluates nothing in them after a rewind: give it a new output path, or take its own log \
         back, too (`_spark_metadata/{epoch}`, `{epoch}.compact` and later). {}",
        or_deleted(*.epoch)
    )]
    NotEvaluated {
        /// The epoch.
        epoch: Epoch,
        /// The operator.
        operator: OperatorName,
    },

    /// A `foreachBatch` function has called an operator and not evaluated its whole result.
    #[error(
        "operator {operator} was called in epoch {epoch}, but only {staged} of its {partitions} \
         partitions were evaluated to their end. take, show, head, limit and isEmpty stop before \
         that, and so does a join whose other side is empty. Evaluate the whole result (write it, \
         or count it) before the function returns. Spark has not committed the epoch: correct the \
         function, and start the query again"
    )]
    NotStaged {
        /// The epoch.
        epoch: Epoch,
        /// The operator.
        operator: OperatorName,
        /// How many of its partitions are staged.
        staged: u32,
        /// How many it has.
        partitions: u32,
    },

    /// An operator that an earlier start of the query has staged was not called.
    #[error(
        "operator {operator} was evaluated in epoch {epoch} by an earlier start of the query, and \
         was not called in this one. Spark has not committed the epoch. Start the query with the \
         earlier code until the epoch is committed, or stop the query and remove what was staged: \
         `holdfast epoch drop <root> {epoch}`"
    )]
    StagedEarlier {
        /// The epoch.
        epoch: Epoch,
        /// The operator.
        operator: OperatorName,
    },

    /// The log lacks objects of an epoch that was computed.
    #[error(
        "epoch {epoch} was computed (a task staged it, or later epochs are based on it), but \
         {lost} is missing: the log was damaged. Restore it from a backup; do not rewind, because \
         the sink would get epochs that it already has"
    )]
    LogLost {
        /// The epoch.
        epoch: Epoch,
        /// What is missing: an object, or a part of the epoch.
        lost: String,
    },

    /// Two sessions of one run have different results.
    #[error("{object}, epoch {epoch}: a second attempt at this task has other results than the \
         first. {}", repeatable_advice(*.base_same, *.input_same))]
    NotRepeatable {
        /// The object.
        object: ObjectId,
        /// The epoch.
        epoch: Epoch,
        /// Whether both started from the same state.
        base_same: bool,
        /// Whether both had the same input.
        input_same: bool,
    },

    /// A new run has other results than an older one whose output may have reached a sink.
    #[error(
        "{object}, epoch {epoch}: an earlier run ({older}) computed all of this epoch, its output \
         may be in the sink, and this run's results differ (changed code, or results that depend \
         on the clock, on random numbers or on row order). Either start the old code once, which \
         completes the epoch; or, if the sink has no output of it, remove it with `holdfast epoch \
         drop <root> {epoch}`; or, if the sink may get other rows than the state holds, start with \
         processing_guarantee=\"at_least_once\""
    )]
    NotReproduced {
        /// This run's object.
        object: ObjectId,
        /// The epoch.
        epoch: Epoch,
        /// The run that must be reproduced.
        older: RunNumber,
    },

    /// An object's base is not the chain of the epoch before, or another object was recorded.
    #[error(
        "{object}, epoch {epoch}: the log object does not follow the state before it, or is not \
         the one that was decided: objects were copied from another root, or an earlier epoch was \
         changed. Restore `log/` from a backup, or go back with `holdfast rewind <root> --epoch \
         {epoch}`"
    )]
    BrokenChain {
        /// The object.
        object: ObjectId,
        /// Its epoch.
        epoch: Epoch,
    },

    /// The log lacks an object that an epoch's decision names.
    #[error(
        "{object}, epoch {epoch}: the log was damaged, log/{:020}/{}.{}.{} is missing. Restore it \
         from a backup; do not rewind, because the sink would get epochs that it already has",
        .epoch.0, .object.operator, .object.partition, .object.run
    )]
    ObjectMissing {
        /// The object.
        object: ObjectId,
        /// Its epoch.
        epoch: Epoch,
    },
}

impl Violation {
    /// Returns the kind of error for the user.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Fenced(_) | Self::ClaimRefused { .. } | Self::AlreadyCommitted { .. } => {
                ErrorKind::Fenced
            }
            Self::NotRepeatable { .. } | Self::EpochEnded { .. } => ErrorKind::InvalidState,
            Self::LogLost { .. } | Self::BrokenChain { .. } | Self::ObjectMissing { .. } => {
                ErrorKind::Restore
            }
            Self::NoOffsets { .. }
            | Self::OtherQuery { .. }
            | Self::StateMissing { .. }
            | Self::PreviousNotCommitted { .. }
            | Self::StateAhead { .. }
            | Self::BegunLater { .. }
            | Self::BegunEarlier { .. }
            | Self::OffsetsChanged { .. }
            | Self::DecisionNotReproduced { .. }
            | Self::EvaluatedInPart { .. }
            | Self::NotEvaluated { .. }
            | Self::NotStaged { .. }
            | Self::StagedEarlier { .. }
            | Self::NotReproduced { .. } => ErrorKind::StateMismatch,
        }
    }
}

impl Violation {
    /// Returns the error for the user. Its message names the state's root; that of `NoOffsets` also
    /// names this machine.
    #[must_use]
    pub fn at(&self, root: &Path, machine: &str) -> Error {
        let text = self
            .to_string()
            .replace("<root>", &root.display().to_string())
            .replace("<machine>", machine);
        Error::new(self.kind(), text).path(root)
    }
}

impl From<Fenced> for Violation {
    fn from(fenced: Fenced) -> Self {
        Self::Fenced(fenced)
    }
}

#[cfg(test)]
mod tests;
