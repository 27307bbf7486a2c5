//! The parts of a violation's message that depend on its values.

use super::claim::Claim;
use super::number::{Epoch, PartitionId};
use super::operator::OperatorName;

/// Names the newer run, and says what to do.
pub(super) fn superseded_by(newer: &Claim) -> String {
    if newer.is_by_hand() {
        return format!(
            "{} was run meanwhile, but it requires that the query is stopped). No further epoch of \
             this run is applied; start the query again",
            newer.run_id
        );
    }
    format!(
        "Spark run id {}, started in epoch {}): two drivers ran the same query, or it was \
         restarted after `holdfast rewind` or `holdfast epoch drop`. No further epoch of this run \
         is applied; stop it and leave the newer one running",
        newer.run_id, newer.first_epoch
    )
}

/// The other possible cause if objects of an epoch are missing, and what to do.
pub(super) fn or_deleted(epoch: Epoch) -> String {
    format!(
        "Or its log objects were deleted: then restore `log/{:020}` from a backup, and do not \
         rewind",
        epoch.0
    )
}

/// Names the first missing partition and the number of others; empty if none is missing.
pub(super) fn some_of(missing: &[(OperatorName, PartitionId)]) -> String {
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

/// Why two results of one epoch differ, and what to do.
pub(super) fn repeatable_advice(base_same: bool, input_same: bool) -> &'static str {
    match (base_same, input_same) {
        (false, _) => {
            "They started from different states: please report this as a bug, with the log of the \
         state host"
        }
        (true, false) => {
            "Its input differs: something before this operator is not repeatable (rand, a limit \
         without order, an external service, current_timestamp in foreachBatch). Make it \
         repeatable; within one start of the query persist() in foreachBatch helps, too"
        }
        (true, true) => {
            "Its input is the same, so the operator's own code is not repeatable (clock, random \
         numbers, an external service): make it depend on its input alone"
        }
    }
}
