//! Computes the time that a partition follows in an epoch with a heartbeat, and since when it is
//! idle.

use holdfast_core::Result;

use crate::host::request::Request;
use crate::operator::input::Admission;
use crate::protocol::{self, BatchTimes, EpochDecision, Heartbeats, IdleTimes, PartitionTimes};
use crate::root::OffsetsFile;
use crate::session::state::PersistentState;

/// The idle times of a partition in an epoch, and the time that its stream time follows.
#[derive(Clone, Copy, Debug, Default)]
pub struct EpochTimes {
    /// Since when the partition and the sources are idle, for head and decision.
    pub idle: IdleTimes,
    /// The time that the partition's stream time follows; none if it follows its own rows only.
    pub followed: Option<i64>,
}

/// Returns the times of a partition in an epoch, once its input has ended.
///
/// If the offsets name no heartbeats, there are no idle times. The partition then follows the
/// heartbeat rows that the query makes itself.
pub fn epoch_times(
    request: &Request,
    state: &PersistentState,
    offsets: Option<OffsetsFile>,
    admission: &Admission,
) -> Result<EpochTimes> {
    let PersistentState { root, run, query } = state;
    let Some((offsets, heartbeats)) = offsets.and_then(|file| Some((file, file.heartbeats?)))
    else {
        return Ok(EpochTimes {
            idle: IdleTimes::default(),
            followed: admission.heartbeat(),
        });
    };
    let batch_time = root.spark.batch_time(query.epoch, offsets)?;
    let mut batch = BatchTimes {
        previous: None,
        now: batch_time,
    };
    let (mut decision, mut sources) = (None, None);
    if let Some(previous) = query.epoch.previous() {
        decision = Some(root.decisions.of(*run, previous, request.partitions)?);
        if let Some(file) = root.spark.offsets(previous)? {
            sources = Some(file.sources);
            batch.previous = file.batch_timestamp.map(|time| time.saturating_mul(1_000));
        }
    }
    let rows = if request.operator.kind.spec().follows_left_rows() {
        admission.left_rows()
    } else {
        admission.rows()
    };
    let before = decision.as_deref();
    let own = before.and_then(|before| before.of(&request.operator.name, request.partition));
    let idle = IdleTimes {
        partition: protocol::idle_since(
            own.and_then(|own| own.idle_since),
            rows > 0,
            batch,
            heartbeats,
        ),
        sources: protocol::idle_since(
            before.and_then(|before| before.sources_idle_since),
            sources != Some(offsets.sources),
            batch,
            heartbeats,
        ),
    };
    let followed = match (idle.partition, admission.heartbeat()) {
        (Some(since), Some(_)) => protocol::followed_time(
            since,
            idle.sources,
            &partition_times(request, before, batch, heartbeats),
            batch_time,
            heartbeats.idle_after,
        ),
        _ => None,
    };
    Ok(EpochTimes { idle, followed })
}

/// The times of all partitions of the operator after the epoch before.
fn partition_times(
    request: &Request,
    before: Option<&EpochDecision>,
    batch: BatchTimes,
    heartbeats: Heartbeats,
) -> Vec<PartitionTimes> {
    let partitions = before.and_then(|before| before.operators.get(&request.operator.name));
    let times = partitions.into_iter().flatten();
    let times = times.map(|partition| PartitionTimes {
        stream_time: partition.stream_time,
        idle_since: partition.idle_since,
    });
    times
        .map(|times| times.without_rows(batch, heartbeats))
        .collect()
}
