//! Objects to encode and decode.

use std::collections::BTreeMap;

use holdfast_core::Timestamp;
use holdfast_host::log::{HeadHeader, Record, Records, RecordsWriter, encode_head};
use holdfast_host::protocol::{
    Attempt, Counts, Digest, Epoch, IdleTimes, OperatorName, PartitionId, RunNumber,
};
use xxhash_rust::xxh3::xxh3_128;

pub(crate) fn header(records: u64, digest: Digest) -> HeadHeader {
    HeadHeader {
        operator: OperatorName::new("join").expect("a name"),
        epoch: Epoch(7),
        partition: PartitionId(3),
        run: RunNumber(2),
        attempt: Attempt(11),
        base: Digest::ZERO,
        digest,
        input: Digest::of(b"input"),
        offsets: Digest::of(b"offsets"),
        planned_at: Some(9),
        idle_since: None,
        sources_idle_since: None,
        counts: Counts {
            input_rows: 3,
            output_rows: 2,
            late: 1,
            ..Counts::default()
        },
        stream_time: Some(1_000_000),
        stream_times: BTreeMap::from([("rates".to_owned(), 1_000_000)]),
        records,
        chunks: Vec::new(),
        far_future: None,
    }
}

pub(crate) fn sample() -> Vec<Record<'static>> {
    vec![
        Record {
            store: "rates",
            key: b"EUR",
            value: Some(b"1.1"),
            timestamp: Some(Timestamp(1_000_000)),
        },
        Record {
            store: "rates",
            key: b"EUR",
            value: None,
            timestamp: Some(Timestamp(-5)),
        },
        Record {
            store: "plain",
            key: b"",
            value: Some(b""),
            timestamp: None,
        },
        Record {
            store: "rates",
            key: b"USD",
            value: Some(b"\x00\xff"),
            timestamp: Some(Timestamp(0)),
        },
    ]
}

/// A writer with these records.
pub(crate) fn writer_of(records: &[Record<'_>]) -> RecordsWriter {
    let mut writer = RecordsWriter::new().expect("a writer");
    for record in records {
        writer
            .push(record.store, record.key, record.value, record.timestamp)
            .expect("pushes");
    }
    writer
}

pub(crate) fn encode(records: &[Record<'_>]) -> Vec<u8> {
    let collected = writer_of(records)
        .finish(&BTreeMap::new(), IdleTimes::default(), Digest::ZERO)
        .expect("finishes");
    encode_head(
        &header(collected.records, collected.digest),
        &collected.payload,
    )
    .expect("encodes")
}

pub(crate) fn list(records: &Records) -> Vec<Record<'_>> {
    records.iter().collect()
}

pub(crate) fn with_checksum(mut body: Vec<u8>) -> Vec<u8> {
    let checksum = xxh3_128(&body).to_be_bytes();
    body.extend_from_slice(&checksum);
    body
}
