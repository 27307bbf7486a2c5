//! Each message names what is affected, and what to do.

use super::super::claim::Claim;
use super::*;
use crate::protocol::OffsetsDifference;

#[test]
fn every_message_names_what_is_affected_and_what_to_do() {
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
                "this machine (a-machine)",
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
            Violation::BegunLater {
                operator: operator.clone(),
                first_epoch: Epoch(50),
                epoch,
            },
            ErrorKind::StateMismatch,
            &["epoch 50", "`holdfast rewind /the/root --epoch 41`"],
        ),
        (
            Violation::BegunEarlier {
                operator: operator.clone(),
                first_epoch: epoch,
                earlier: Epoch(40),
            },
            ErrorKind::StateMismatch,
            &["operators/", "epoch 41", "took part in epoch 40", "backup"],
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
            &[
                PLACE,
                "epoch 41",
                "log/00000000000000000041/",
                "backup",
                "do not rewind",
            ],
        ),
        (
            Violation::EpochEnded {
                object: object.clone(),
                epoch,
            },
            ErrorKind::InvalidState,
            &[PLACE, "epoch 41", "join your threads"],
        ),
        (
            Violation::DecisionNotReproduced {
                object: object.clone(),
                epoch,
            },
            ErrorKind::StateMismatch,
            &[PLACE, "epoch 41", "`holdfast rewind /the/root --epoch 41`"],
        ),
        (
            Violation::OffsetsChanged {
                epoch,
                difference: OffsetsDifference::BatchTime {
                    plan: 7,
                    file: Some(8),
                },
            },
            ErrorKind::StateMismatch,
            &[
                "query/offsets/41",
                "batch at 7 ms",
                "batch at 8 ms",
                "Two drivers",
                "`holdfast rewind /the/root --epoch 41`",
            ],
        ),
    ];
    for (violation, kind, parts) in cases {
        let error = violation.at(Path::new("/the/root"), "a-machine");
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
