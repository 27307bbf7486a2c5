//! What the protocol refuses, each with the whole message for the user.

use std::path::Path;

use holdfast_core::{Error, ErrorKind};
use thiserror::Error;

use super::{Claim, Epoch, Fenced, ObjectId, OperatorName, PartitionId, RunNumber};

/// A rule of the protocol that would be broken by going on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Violation {
    /// A newer run has claimed.
    #[error("run {} of this query was superseded by run {} ({}",
        .0.mine, .0.newer.number, superseded_by(&.0.newer))]
    Fenced(Fenced),

    /// A run began with an epoch that is committed.
    #[error(
        "run {run_id} wants to compute epoch {epoch}, which Spark has already committed: another \
         driver runs the same query and was faster. Stop this one"
    )]
    ClaimRefused {
        /// The epoch.
        epoch: Epoch,
        /// Spark's run id.
        run_id: String,
    },

    /// A task of an epoch that is over.
    #[error(
        "Spark has already committed epoch {epoch}: this task (a stale driver's, or a twin's) \
         comes too late and is not needed"
    )]
    AlreadyCommitted {
        /// The epoch.
        epoch: Epoch,
    },

    /// Spark's offset log beside the state lacks the epoch.
    #[error(
        "Spark works on epoch {epoch}, but the state's root holds no offsets of it \
         (query/offsets/{epoch}): the query keeps its checkpoint elsewhere, or this machine \
         (<machine>) does not see the driver's folder. Start it with \
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
         with a new root; nothing was touched",
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
         state back, or start with a new root (which reads the sources from their beginning)"
    )]
    StateMissing {
        /// The epoch that Spark asks for.
        epoch: Epoch,
    },

    /// Spark's commit log lacks the epoch before.
    #[error(
        "Spark works on epoch {epoch}, but its commit log does not hold epoch {previous} \
         (query/commits/{previous}): the checkpoint was changed by hand, or the query runs with \
         asynchronous progress tracking, which Holdfast cannot work with. Restore the file, or go \
         back with `holdfast rewind <root> --epoch N` to an epoch N whose N - 1 it holds"
    )]
    PreviousNotCommitted {
        /// The epoch that Spark asks for.
        epoch: Epoch,
        /// The epoch before.
        previous: Epoch,
    },

    /// The state is ahead of Spark by more than a lost commit explains.
    #[error(
        "operator {operator}, partition {partition}: the state stands at epoch {applied}, but \
         Spark works on epoch {epoch}: an older checkpoint was restored. Take the state back to \
         it with `holdfast rewind <root> --epoch {epoch}`, or restore the newer checkpoint"
    )]
    StateAhead {
        /// Whose state.
        operator: OperatorName,
        /// Of which partition.
        partition: PartitionId,
        /// Where the state stands.
        applied: Epoch,
        /// The epoch that Spark asks for.
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
        /// The highest run that has objects of it.
        run: RunNumber,
        /// What that run lacks, as far as known.
        missing: Vec<(OperatorName, PartitionId)>,
    },

    /// Spark committed an epoch that never reached the operator.
    #[error(
        "epoch {epoch} was committed by Spark, but operator {operator} was not evaluated in it: \
         the sink (foreachBatch?) did not use its DataFrame, or the query ran without it. \
         Evaluate it in every epoch, then take the epoch back with `holdfast rewind <root> \
         --epoch {epoch}`. A sink that skips the epochs it has (Spark's file sink, Delta) \
         evaluates nothing in them after a rewind: give it a new output path, or take its own log \
         back, too (`_spark_metadata/{epoch}` and later). {}",
        or_deleted(*.epoch)
    )]
    NotEvaluated {
        /// The epoch.
        epoch: Epoch,
        /// The operator that asks.
        operator: OperatorName,
    },

    /// The log lacks objects of an epoch that later ones stand on.
    #[error(
        "epoch {epoch} was computed, for later ones stand on it, but {lost} is missing: the log \
         was damaged. Put it back from a backup; do not rewind, since the sink would get epochs \
         again that it has"
    )]
    LogLost {
        /// The epoch.
        epoch: Epoch,
        /// What is missing, as far as known.
        lost: String,
    },

    /// Two sessions of one run came to different results.
    #[error("{object}, epoch {epoch}: a second attempt at this task came to other results than the \
         first. {}", repeatable_advice(*.base_same, *.input_same))]
    NotRepeatable {
        /// The object.
        object: ObjectId,
        /// The epoch.
        epoch: Epoch,
        /// Both started from the same state.
        base_same: bool,
        /// Both had the same input.
        input_same: bool,
    },

    /// A new run came to other results than an older one whose output may have reached a sink.
    #[error(
        "{object}, epoch {epoch}: an earlier run ({older}) computed all of this epoch, maybe as \
         far as the sink, and came to other results than this one (changed code, or results that \
         depend on clock, chance or row order). Either start the old code once, which completes \
         the epoch, or, if its output reached no sink, remove it with `holdfast epoch drop <root> \
         {epoch}`, or, if the sink may be given other rows than the state holds, start with \
         processing_guarantee=\"at_least_once\""
    )]
    NotReproduced {
        /// This run's object.
        object: ObjectId,
        /// The epoch.
        epoch: Epoch,
        /// The run that is to be reproduced.
        older: RunNumber,
    },

    /// An object in the log does not follow the one before it.
    #[error(
        "{object}, epoch {epoch}: the log object does not follow the state before it (its base \
         differs): objects were copied from another root, or an earlier epoch was changed. \
         Restore `log/` from a backup, or go back with `holdfast rewind <root> --epoch {epoch}`"
    )]
    BrokenChain {
        /// The object.
        object: ObjectId,
        /// Its epoch.
        epoch: Epoch,
    },

    /// An object that decides an epoch is not there.
    #[error(
        "{object}, epoch {epoch}: the log object is missing. Restore `log/` from a backup, or go \
         back with `holdfast rewind <root> --epoch {epoch}`"
    )]
    ObjectMissing {
        /// The object.
        object: ObjectId,
        /// Its epoch.
        epoch: Epoch,
    },
}

impl Violation {
    /// The kind of error that it is for the user.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Fenced(_) | Self::ClaimRefused { .. } | Self::AlreadyCommitted { .. } => {
                ErrorKind::Fenced
            }
            Self::NotRepeatable { .. } => ErrorKind::InvalidState,
            Self::LogLost { .. } | Self::BrokenChain { .. } | Self::ObjectMissing { .. } => {
                ErrorKind::Restore
            }
            Self::NoOffsets { .. }
            | Self::OtherQuery { .. }
            | Self::StateMissing { .. }
            | Self::PreviousNotCommitted { .. }
            | Self::StateAhead { .. }
            | Self::EvaluatedInPart { .. }
            | Self::NotEvaluated { .. }
            | Self::NotReproduced { .. } => ErrorKind::StateMismatch,
        }
    }
}

impl Violation {
    /// The error that it is for the user of the state in `root`, which the commands in the message
    /// name.
    #[must_use]
    pub fn at(&self, root: &Path) -> Error {
        let text = self
            .to_string()
            .replace("<root>", &root.display().to_string())
            .replace("<machine>", &machine());
        Error::new(self.kind(), text).path(root)
    }
}

impl From<Fenced> for Violation {
    fn from(fenced: Fenced) -> Self {
        Self::Fenced(fenced)
    }
}

/// This machine's name, in words.
fn machine() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| "unnamed".to_owned(), |name| name.trim().to_owned())
}

/// Who came meanwhile, and what to do.
fn superseded_by(newer: &Claim) -> String {
    if newer.is_by_hand() {
        return format!(
            "{} was run meanwhile, which is for a query that is stopped). Nothing of this run is \
         applied; start the query again",
            newer.run_id
        );
    }
    format!(
        "Spark run id {}, started in epoch {}): two drivers ran the same query, or it was \
         started anew after `holdfast rewind` or `holdfast epoch drop`. Nothing of this run is \
         applied; stop it and leave the newer one running",
        newer.run_id, newer.first_epoch
    )
}

fn or_deleted(epoch: Epoch) -> String {
    format!(
        "Or its log objects were deleted: then restore `log/{:020}` from a backup, and do not \
         rewind",
        epoch.0
    )
}

fn some_of(missing: &[(OperatorName, PartitionId)]) -> String {
    let Some((operator, partition)) = missing.first() else {
        return String::new();
    };
    let more = if missing.len() > 1 {
        format!(" and {} more", missing.len() - 1)
    } else {
        String::new()
    };
    format!(" lacks operator {operator}, partition {partition}{more}")
}

fn repeatable_advice(base_same: bool, input_same: bool) -> &'static str {
    match (base_same, input_same) {
        (false, _) => {
            "They started from different states: please report this as a bug, with the log of the \
         state host"
        }
        (true, false) => {
            "Its input differs: something before this operator is not repeatable (rand, a limit \
         without order, an outside service, current_timestamp in foreachBatch). Make it \
         repeatable; within one start of the query persist() in foreachBatch helps, too"
        }
        (true, true) => {
            "Its input is the same, so the operator's own code is not repeatable (clock, chance, \
         an outside service): make it depend on its input alone"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each message names what it is about and a way out.
    #[test]
    fn every_message_names_the_thing_and_the_way_out() {
        let operator = OperatorName::new("rates").expect("a name");
        let (partition, epoch, run) = (PartitionId(3), Epoch(41), RunNumber(2));
        let object = ObjectId {
            operator: operator.clone(),
            partition,
            run,
        };
        let newer = Claim {
            number: RunNumber(5),
            run_id: "`holdfast rewind` 9f".into(),
            first_epoch: epoch,
            query_id: "q".into(),
        };
        let by_hand = Violation::Fenced(Fenced { mine: run, newer });
        let newer = Claim {
            number: RunNumber(5),
            run_id: "9f".into(),
            first_epoch: Epoch(40),
            query_id: "q".into(),
        };
        const PLACE: &str = "operator rates, partition 3";
        let missing = vec![
            (operator.clone(), partition),
            (operator.clone(), PartitionId(4)),
        ];
        let object_at = |base_same, input_same| Violation::NotRepeatable {
            object: object.clone(),
            epoch,
            base_same,
            input_same,
        };
        let cases: Vec<(Violation, ErrorKind, &[&str])> = vec![
            (
                Violation::Fenced(Fenced { mine: run, newer }),
                ErrorKind::Fenced,
                &["run 2", "run 5", "9f", "stop it"],
            ),
            (
                by_hand,
                ErrorKind::Fenced,
                &[
                    "run 2",
                    "run 5",
                    "`holdfast rewind` 9f was run meanwhile",
                    "start the query again",
                ],
            ),
            (
                Violation::ClaimRefused {
                    epoch,
                    run_id: "9f".into(),
                },
                ErrorKind::Fenced,
                &["epoch 41", "9f", "Stop this one"],
            ),
            (
                Violation::AlreadyCommitted { epoch },
                ErrorKind::Fenced,
                &["epoch 41", "not needed"],
            ),
            (
                Violation::NoOffsets { epoch },
                ErrorKind::StateMismatch,
                &[
                    "epoch 41",
                    "this machine (",
                    "does not see",
                    ".option(\"checkpointLocation\", state.checkpoint_location)",
                ],
            ),
            (
                Violation::OtherQuery {
                    expected: "a1".into(),
                    found: Some("b2".into()),
                },
                ErrorKind::StateMismatch,
                &["query a1", "query b2", "new root"],
            ),
            (
                Violation::OtherQuery {
                    expected: "a1".into(),
                    found: None,
                },
                ErrorKind::StateMismatch,
                &["is of no query"],
            ),
            (
                Violation::StateMissing { epoch },
                ErrorKind::StateMismatch,
                &["meta.json", "epoch 41", "new root"],
            ),
            (
                Violation::PreviousNotCommitted {
                    epoch,
                    previous: Epoch(40),
                },
                ErrorKind::StateMismatch,
                &["query/commits/40", "holdfast rewind"],
            ),
            (
                Violation::StateAhead {
                    operator: operator.clone(),
                    partition,
                    applied: Epoch(50),
                    epoch,
                },
                ErrorKind::StateMismatch,
                &[PLACE, "epoch 50", "`holdfast rewind /the/root --epoch 41`"],
            ),
            (
                Violation::EvaluatedInPart {
                    epoch,
                    run,
                    missing,
                },
                ErrorKind::StateMismatch,
                &[
                    "epoch 41",
                    "run 2 lacks",
                    PLACE,
                    "and 1 more",
                    "holdfast rewind /the/root --epoch 41`",
                    "restore `log/00000000000000000041`",
                ],
            ),
            (
                Violation::NotEvaluated { epoch, operator },
                ErrorKind::StateMismatch,
                &[
                    "epoch 41",
                    "rates",
                    "holdfast rewind /the/root",
                    "do not rewind",
                ],
            ),
            (
                Violation::LogLost {
                    epoch,
                    lost: "log/x".into(),
                },
                ErrorKind::Restore,
                &["epoch 41", "log/x is missing", "do not rewind"],
            ),
            (
                object_at(true, false),
                ErrorKind::InvalidState,
                &[PLACE, "run 2", "epoch 41", "persist()"],
            ),
            (
                object_at(true, true),
                ErrorKind::InvalidState,
                &["own code is not repeatable"],
            ),
            (
                object_at(false, true),
                ErrorKind::InvalidState,
                &["different states"],
            ),
            (
                Violation::NotReproduced {
                    object: object.clone(),
                    epoch,
                    older: RunNumber(1),
                },
                ErrorKind::StateMismatch,
                &[
                    PLACE,
                    "epoch 41",
                    "earlier run (1)",
                    "start the old code once",
                    "`holdfast epoch drop /the/root 41`",
                    "at_least_once",
                ],
            ),
            (
                Violation::BrokenChain {
                    object: object.clone(),
                    epoch,
                },
                ErrorKind::Restore,
                &[PLACE, "epoch 41", "backup"],
            ),
            (
                Violation::ObjectMissing {
                    object: object.clone(),
                    epoch,
                },
                ErrorKind::Restore,
                &[PLACE, "epoch 41", "backup"],
            ),
        ];
        for (violation, kind, parts) in cases {
            let error = violation.at(Path::new("/the/root"));
            assert_eq!(error.kind(), kind, "{error}");
            assert!(
                error.to_string().ends_with("[path: /the/root]")
                    && !error.to_string().contains("<root>"),
                "{error}"
            );
            for part in parts {
                assert!(
                    error.to_string().contains(part),
                    "{part:?} is not in {error}"
                );
            }
        }
    }
}
