//! Stages a session's changes in the log, and finds an earlier session's changes to repeat.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use holdfast_core::{ProcessingGuarantee, Result};

use crate::host::Host;
use crate::host::request::{Request, StageReport};
use crate::log::{HeadHeader, RecordsWriter};
use crate::operator::Outcome;
use crate::partition::{PreparedEpoch, StateView};
use crate::protocol::{Digest, IdleTimes, ObjectId, older_whole};
use crate::root::{ChunkName, Head, StageOutcome, StagedRows};
use crate::session::pipeline::SessionPipeline;
use crate::session::state::PersistentState;

/// Finds an earlier session's object with equal input and base.
///
/// If several objects match, it returns the newest run's. But under exactly-once, the object of the
/// older run that the session must reproduce comes first.
pub fn find_repeated(
    request: &Request,
    state: &PersistentState,
    input: Digest,
    base: Digest,
) -> Result<Option<Head>> {
    let PersistentState { root, run, query } = state;
    let operator = &request.operator.name;
    let mut objects = root.log.files_in_force(query.epoch)?.heads;
    let reproduced = match request.settings.processing_guarantee {
        ProcessingGuarantee::ExactlyOnce => older_whole(&objects, request.partitions, *run),
        ProcessingGuarantee::AtLeastOnce => None,
    };
    objects.retain(|object| {
        object.operator == *operator && object.partition == request.partition && object.run <= *run
    });
    objects.sort_unstable_by_key(|object| (Some(object.run) != reproduced, Reverse(object.run)));
    for object in objects {
        let header = root.log.head_header(query.epoch, &object)?;
        if header.is_some_and(|header| (header.input, header.base) == (input, base)) {
            return root.log.head(query.epoch, &object);
        }
    }
    Ok(None)
}

/// Returns the name of a session's first chunk.
pub fn first_chunk(host: &Host, request: &Request, state: &PersistentState) -> ChunkName {
    ChunkName {
        epoch: state.query.epoch,
        object: ObjectId {
            operator: request.operator.name.clone(),
            partition: request.partition,
            run: state.run,
        },
        attempt: request.attempt,
        nonce: host.nonce(),
        index: 0,
    }
}

/// Writes a session's changes to the log and holds them in memory for the next epoch. Once this
/// returns, the epoch's far-future rows may be published, and then the task may be acknowledged.
///
/// The session's far-future rows, if it has any, must already be in the log.
pub fn stage(
    request: &Request,
    state: &PersistentState,
    pipeline: SessionPipeline,
    (outcome, idle): (&Outcome, IdleTimes),
    (mut chunk, far_future): (ChunkName, Option<&StagedRows>),
) -> Result<StageReport> {
    let PersistentState { root, run, query } = state;
    let (run, epoch) = (*run, query.epoch);
    let object = chunk.object.clone();
    let SessionPipeline {
        stores,
        view:
            StateView {
                db,
                mut transaction,
                memory,
                base,
                offsets,
            },
        partition,
        ..
    } = pipeline;
    if transaction.has_spilled() {
        memory.count_spill();
    }
    let mut chunks: Vec<String> = Vec::new();
    let mut put_chunk = |payload: &[u8]| -> Result<()> {
        root.log.put_chunk(&chunk, payload)?;
        chunks.push(chunk.to_string());
        chunk.index += 1;
        Ok(())
    };
    let mut writer = RecordsWriter::new()?;
    let mut stream_times = BTreeMap::new();
    let mut bytes = 0;
    for store in &stores {
        let timed = store.kind.restores_with_times();
        db.for_each_change(&store.name, &mut transaction, &mut |row| {
            bytes += (row.key.len() + row.value.map_or(0, <[u8]>::len)) as u64;
            writer.push(
                &store.name,
                row.key,
                row.value,
                timed.then_some(row.timestamp),
            )?;
            writer
                .sealed()
                .iter()
                .try_for_each(|payload| put_chunk(payload))
        })?;
        if let Some(time) = db.stream_time(&store.name, &transaction)? {
            stream_times.insert(store.name.clone(), time.0);
        }
    }
    let collected = writer.finish(&stream_times, idle, outcome.output)?;
    collected
        .chunks
        .iter()
        .try_for_each(|payload| put_chunk(payload))?;
    let header = HeadHeader {
        operator: object.operator.clone(),
        epoch,
        partition: object.partition,
        run,
        attempt: request.attempt,
        base,
        digest: collected.digest,
        input: outcome.input,
        offsets: offsets.map_or(Digest::ZERO, |file| file.digest),
        planned_at: request.planned_at,
        idle_since: idle.partition,
        sources_idle_since: idle.sources,
        counts: outcome.counts,
        stream_time: outcome.stream_time,
        stream_times,
        records: collected.records,
        chunks,
        far_future: far_future.map(|rows| rows.name.clone()),
    };
    root.spark.sync_offsets(run, epoch)?;
    let staged = root.stage(
        &header,
        &collected.payload,
        request.partitions,
        request.settings.processing_guarantee,
    )?;
    let digest = match staged {
        StageOutcome::Written | StageOutcome::Adopted => {
            if let Some(partition) = partition {
                partition.keep(PreparedEpoch {
                    epoch,
                    run,
                    base,
                    digest: collected.digest,
                    transaction,
                    bytes,
                    memory,
                });
            }
            collected.digest
        }
        // An earlier session staged other changes; the partition reads them from the log.
        StageOutcome::Differing(digest) => digest,
    };
    Ok(StageReport {
        epoch: Some(epoch),
        digest: Some(digest),
        adopted: staged != StageOutcome::Written,
        records: collected.records,
        counts: outcome.counts,
    })
}
