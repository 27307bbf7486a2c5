//! The steps that bring a partition's state to exactly the epoch before a session's.

use crate::protocol::number::{Epoch, PartitionId};
use crate::protocol::offsets_difference::OffsetsDifference;
use crate::protocol::operator::OperatorName;
use crate::protocol::violation::Violation;

/// What a host reads before a session opens.
///
/// `applied` must be read *before* Spark's logs: an epoch in the database was committed when it was
/// applied, so a commit log that is read later must hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFacts {
    /// The operator.
    pub operator: OperatorName,
    /// The partition.
    pub partition: PartitionId,
    /// The session's epoch.
    pub epoch: Epoch,
    /// The epoch in which the operator first took part in the query; its state before is empty.
    pub first_epoch: Epoch,
    /// The last epoch in the local database, if any, or a later one that the root proves to be
    /// committed.
    pub applied: Option<Epoch>,
    /// The database's chain is that of the decided result of `applied`. True if the chains were not
    /// compared.
    pub applied_decided: bool,
    /// Spark's commit log holds the epoch before; true for epoch 0.
    pub previous_committed: bool,
    /// Spark's commit log holds the epoch itself.
    pub committed: bool,
    /// Spark's offset log holds the epoch.
    pub has_offsets: bool,
    /// When Spark planned the epoch.
    pub planned: PlannedBatch,
}

/// The time at which Spark planned an epoch, in epoch milliseconds, from two sources.
///
/// They differ if two drivers wrote the offsets of the epoch: Spark checks that the file is absent
/// and then renames, which is not atomic in every object store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlannedBatch {
    /// In the task's plan, from the memory of its driver; none if the plan does not carry it.
    pub plan: Option<i64>,
    /// In the file of the offset log; none if the file has no timestamp.
    pub file: Option<i64>,
}

/// The next step of a host before a session opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenStep {
    /// The state is at the epoch before.
    Ready,
    /// Apply the decided results of these epochs, both included; then the state is ready.
    Apply {
        /// The first epoch to apply.
        from: Epoch,
        /// The last epoch to apply, which is the one before the session's.
        to: Epoch,
    },
    /// Discard the local database, make a new one from the root, and read the facts again. The
    /// discard is logged with this reason.
    Rebuild {
        /// The reason, for the log.
        reason: String,
    },
    /// The session cannot open; nothing is changed.
    Error(Violation),
}

/// Returns the next step towards a session of `facts.epoch`.
#[must_use]
pub fn open_step(facts: &OpenFacts) -> OpenStep {
    let epoch = facts.epoch;
    if facts.committed {
        // The task is stale, wherever the state is now.
        return OpenStep::Error(Violation::AlreadyCommitted { epoch });
    }
    if !facts.has_offsets {
        return OpenStep::Error(Violation::NoOffsets { epoch });
    }
    let PlannedBatch { plan, file } = facts.planned;
    if let Some(plan) = plan
        && file != Some(plan)
    {
        return OpenStep::Error(Violation::OffsetsChanged {
            epoch,
            difference: OffsetsDifference::BatchTime { plan, file },
        });
    }
    if let (false, Some(previous)) = (facts.previous_committed, epoch.previous()) {
        return OpenStep::Error(Violation::PreviousNotCommitted { epoch, previous });
    }
    let step = match facts.applied {
        None => roll_forward(facts.first_epoch, epoch),
        Some(applied) if applied > epoch => OpenStep::Error(Violation::StateAhead {
            operator: facts.operator.clone(),
            partition: facts.partition,
            applied,
            epoch,
        }),
        Some(applied) if applied == epoch => OpenStep::Rebuild {
            reason: format!(
                "the state holds epoch {epoch}, which Spark has not committed (its last commit \
                 was lost)"
            ),
        },
        Some(applied) if !facts.applied_decided => OpenStep::Rebuild {
            reason: format!("the state holds an object that did not decide its epoch, {applied}"),
        },
        Some(applied) => roll_forward(applied.next(), epoch),
    };
    match step {
        // The state would skip the epochs before `first_epoch`, and no later check would detect it.
        OpenStep::Ready | OpenStep::Apply { .. } if facts.first_epoch > epoch => {
            OpenStep::Error(Violation::BegunLater {
                operator: facts.operator.clone(),
                first_epoch: facts.first_epoch,
                epoch,
            })
        }
        step => step,
    }
}

fn roll_forward(from: Epoch, epoch: Epoch) -> OpenStep {
    match epoch.previous() {
        Some(to) if from <= to => OpenStep::Apply { from, to },
        _ => OpenStep::Ready,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(epoch: i64, applied: Option<i64>) -> OpenFacts {
        OpenFacts {
            operator: OperatorName::new("rates").expect("a name"),
            partition: PartitionId(1),
            epoch: Epoch(epoch),
            first_epoch: Epoch(0),
            applied: applied.map(Epoch),
            applied_decided: true,
            previous_committed: true,
            committed: false,
            has_offsets: true,
            planned: PlannedBatch::default(),
        }
    }

    #[test]
    fn a_state_at_the_epoch_before_is_ready() {
        assert_eq!(open_step(&facts(7, Some(6))), OpenStep::Ready);
        assert_eq!(open_step(&facts(0, None)), OpenStep::Ready);
        assert_eq!(
            open_step(&OpenFacts {
                first_epoch: Epoch(7),
                ..facts(7, None)
            }),
            OpenStep::Ready
        );
    }

    #[test]
    fn a_state_behind_rolls_forward() {
        assert_eq!(
            open_step(&facts(7, Some(3))),
            OpenStep::Apply {
                from: Epoch(4),
                to: Epoch(6)
            }
        );
        assert_eq!(
            open_step(&facts(7, None)),
            OpenStep::Apply {
                from: Epoch(0),
                to: Epoch(6)
            }
        );
        let late = OpenFacts {
            first_epoch: Epoch(5),
            ..facts(7, None)
        };
        assert_eq!(
            open_step(&late),
            OpenStep::Apply {
                from: Epoch(5),
                to: Epoch(6)
            }
        );
    }

    #[test]
    fn a_state_one_epoch_ahead_is_rebuilt_and_a_state_further_ahead_is_an_error() {
        assert!(matches!(
            open_step(&facts(7, Some(7))),
            OpenStep::Rebuild { .. }
        ));
        let OpenStep::Error(error @ Violation::StateAhead { .. }) = open_step(&facts(7, Some(8)))
        else {
            panic!("a state ahead by two must not open");
        };
        assert!(error.to_string().contains("holdfast rewind"), "{error}");
    }

    #[test]
    fn a_state_that_begins_after_the_epoch_does_not_open() {
        let later = |applied| {
            open_step(&OpenFacts {
                first_epoch: Epoch(8),
                ..facts(7, applied)
            })
        };
        for applied in [None, Some(6), Some(3)] {
            let OpenStep::Error(error @ Violation::BegunLater { .. }) = later(applied) else {
                panic!("the state would skip epochs")
            };
            assert!(error.to_string().contains("--epoch 7"), "{error}");
        }
        assert!(matches!(later(Some(7)), OpenStep::Rebuild { .. }));
        assert!(matches!(
            later(Some(8)),
            OpenStep::Error(Violation::StateAhead { .. })
        ));
    }

    #[test]
    fn a_state_with_an_object_that_did_not_decide_is_rebuilt() {
        let other = OpenFacts {
            applied_decided: false,
            ..facts(7, Some(6))
        };
        assert!(matches!(open_step(&other), OpenStep::Rebuild { .. }));
    }

    #[test]
    fn a_task_of_a_committed_epoch_never_touches_the_state() {
        for applied in [6, 7, 8] {
            let stale = OpenFacts {
                committed: true,
                ..facts(7, Some(applied))
            };
            assert_eq!(
                open_step(&stale),
                OpenStep::Error(Violation::AlreadyCommitted { epoch: Epoch(7) })
            );
        }
    }

    #[test]
    fn a_task_of_a_driver_that_did_not_write_the_offsets_does_not_open() {
        let planned = |plan, file| OpenFacts {
            planned: PlannedBatch { plan, file },
            ..facts(7, Some(6))
        };
        assert_eq!(open_step(&planned(Some(5), Some(5))), OpenStep::Ready);
        assert_eq!(open_step(&planned(None, Some(5))), OpenStep::Ready);
        for file in [Some(6), None] {
            let OpenStep::Error(error) = open_step(&planned(Some(5), file)) else {
                panic!("another driver planned the epoch")
            };
            assert!(matches!(error, Violation::OffsetsChanged { .. }), "{error}");
        }
    }

    #[test]
    fn sparks_logs_must_be_beside_the_state() {
        let elsewhere = OpenFacts {
            has_offsets: false,
            previous_committed: false,
            ..facts(7, Some(6))
        };
        assert_eq!(
            open_step(&elsewhere),
            OpenStep::Error(Violation::NoOffsets { epoch: Epoch(7) })
        );
        let lost = OpenFacts {
            previous_committed: false,
            ..facts(7, Some(6))
        };
        let violation = Violation::PreviousNotCommitted {
            epoch: Epoch(7),
            previous: Epoch(6),
        };
        assert_eq!(open_step(&lost), OpenStep::Error(violation));
    }
}
