//! The head: the one object that stages a partition's epoch.

use std::collections::BTreeMap;

use holdfast_core::Result;
use serde::{Deserialize, Serialize};

use super::records::Records;
use super::{envelope, payload};
use crate::protocol::{
    Attempt, Counts, Digest, Epoch, HeadSummary, ObjectId, OperatorName, PartitionDecision,
    PartitionId, RunNumber,
};

const MAGIC: [u8; 4] = *b"HFLG";

/// The header of a head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeadHeader {
    /// The operator.
    pub operator: OperatorName,
    /// The epoch.
    pub epoch: Epoch,
    /// The partition.
    pub partition: PartitionId,
    /// The run that staged it.
    pub run: RunNumber,
    /// The attempt that staged it.
    pub attempt: Attempt,
    /// The chain before this epoch.
    pub base: Digest,
    /// The digest of records, stream times, idle times, output and far-future rows.
    pub digest: Digest,
    /// The digest of the input, independent of its order.
    pub input: Digest,
    /// The digest of Spark's offsets of the epoch, as the session read them when it opened.
    pub offsets: Digest,
    /// The batch timestamp in the task's plan, in epoch milliseconds; none if the plan does not
    /// carry it.
    pub planned_at: Option<i64>,
    /// Since when the partition has had no rows that advance its stream time, in epoch
    /// microseconds; none if it had some, or if the query has no heartbeats.
    pub idle_since: Option<i64>,
    /// Since when no source but the heartbeats has moved, in epoch microseconds; none if one has,
    /// or if the query has no heartbeats.
    pub sources_idle_since: Option<i64>,
    /// The epoch's rows.
    pub counts: Counts,
    /// The operator's stream time after the epoch, in microseconds; none if the operator has no
    /// stream time, or has had no row with a time.
    pub stream_time: Option<i64>,
    /// Each store's stream time after the epoch, in microseconds.
    pub stream_times: BTreeMap<String, i64>,
    /// How many records this object and its chunks have.
    pub records: u64,
    /// Full names of the chunks.
    pub chunks: Vec<String>,
    /// Full name of the file of far-future rows; none if there are none.
    pub far_future: Option<String>,
}

impl HeadHeader {
    /// Returns the parts that are compared between sessions.
    #[must_use]
    pub fn summary(&self) -> HeadSummary {
        HeadSummary {
            base: self.base,
            digest: self.digest,
            input: self.input,
            input_rows: self.counts.input_rows,
            offsets: self.offsets,
        }
    }

    /// Returns the object's part of its epoch's decision.
    #[must_use]
    pub fn decision(&self) -> PartitionDecision {
        PartitionDecision {
            base: self.base,
            digest: self.digest,
            stream_time: self.stream_time,
            stream_times: self.stream_times.clone(),
            idle_since: self.idle_since,
            counts: self.counts,
        }
    }

    /// Returns the object's id.
    #[must_use]
    pub fn id(&self) -> ObjectId {
        ObjectId {
            operator: self.operator.clone(),
            partition: self.partition,
            run: self.run,
        }
    }
}

/// Encodes a head; `payload` comes from a [`RecordsWriter`](crate::log::RecordsWriter).
///
/// # Errors
/// `Serialization` for a header above 4 GiB.
pub fn encode_head(header: &HeadHeader, payload: &[u8]) -> Result<Vec<u8>> {
    envelope::seal(MAGIC, header, payload)
}

/// Decodes and verifies the header in the first bytes of a head; none if the bytes lack a part of
/// the header or of its checksum.
///
/// # Errors
/// `Restore` for a damaged header or fewer than 10 bytes, `FormatVersion` for another version's.
pub fn decode_header(name: &str, prefix: &[u8]) -> Result<Option<HeadHeader>> {
    Ok(envelope::open_prefix(name, MAGIC, prefix)?.map(|(header, _)| header))
}

/// Decodes a head and returns its payload undecoded. All bytes are verified.
///
/// # Errors
/// `Restore` for a damaged object, `FormatVersion` for another version's.
pub fn decode_payload<'a>(name: &str, bytes: &'a [u8]) -> Result<(HeadHeader, &'a [u8])> {
    envelope::open(name, MAGIC, bytes)
}

/// Decodes a head with its own records. `name` is the object's, for messages.
///
/// # Errors
/// As [`decode_payload`]; `Restore` also if the head has more records than its header says, or
/// fewer and no chunks.
pub fn decode_head(name: &str, bytes: &[u8]) -> Result<(HeadHeader, Records)> {
    let (header, rest): (HeadHeader, _) = envelope::open(name, MAGIC, bytes)?;
    let records = payload::read(name, rest)?;
    let found = records.len() as u64;
    if found > header.records || (header.chunks.is_empty() && found != header.records) {
        let text = format!(
            "it holds {found} records, its header says {}",
            header.records
        );
        return Err(envelope::damaged(name, &text));
    }
    Ok((header, records))
}
