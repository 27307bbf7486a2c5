//! The writer: digests, chunks, costs.

use std::collections::{BTreeMap, HashSet};

use holdfast_core::Timestamp;
use holdfast_host::log::{
    CHUNK_BYTES, ChunkHeader, HeadHeader, Record, RecordsWriter, decode_chunk, decode_head,
    encode_chunk, encode_head,
};
use holdfast_host::protocol::{Digest, IdleTimes};

use crate::support::{header, writer_of};

/// The records, stream times and output of an epoch.
type EpochContent<'a> = (&'a [Record<'a>], &'a [(&'a str, i64)], &'a [u8]);

/// The digest of an epoch.
fn digest((records, times, output): EpochContent<'_>, idle: IdleTimes) -> Digest {
    let times = times
        .iter()
        .map(|(store, time)| ((*store).to_owned(), *time))
        .collect();
    writer_of(records)
        .finish(&times, idle, Digest::of(output))
        .expect("finishes")
        .digest
}

#[test]
fn the_digest_depends_on_every_part_and_its_place() {
    let one = Record {
        store: "s",
        key: b"ab",
        value: Some(b"c"),
        timestamp: Some(Timestamp(1)),
    };
    let others: [EpochContent<'_>; 10] = [
        (&[one], &[("s", 1)], b"o"),
        (&[], &[("s", 1)], b"o"),
        (
            &[Record {
                key: b"a",
                value: Some(b"bc"),
                ..one
            }],
            &[("s", 1)],
            b"o",
        ),
        (&[Record { store: "t", ..one }], &[("s", 1)], b"o"),
        (&[Record { value: None, ..one }], &[("s", 1)], b"o"),
        (
            &[Record {
                value: Some(b""),
                ..one
            }],
            &[("s", 1)],
            b"o",
        ),
        (
            &[Record {
                timestamp: None,
                ..one
            }],
            &[("s", 1)],
            b"o",
        ),
        (&[one, one], &[("s", 1)], b"o"),
        (&[one], &[("s", 2)], b"o"),
        (&[one], &[("s", 1)], b"p"),
    ];
    let digests = others.map(|content| digest(content, IdleTimes::default()));
    assert_eq!(HashSet::from(digests).len(), digests.len());
}

#[test]
fn the_digest_depends_on_both_idle_times() {
    // Neither time is left out, and the two exchanged give another digest.
    let times = [
        (None, None),
        (Some(1), None),
        (Some(2), None),
        (None, Some(1)),
        (None, Some(2)),
        (Some(1), Some(2)),
        (Some(2), Some(1)),
    ];
    let digests = times
        .map(|(partition, sources)| digest((&[], &[], b"o"), IdleTimes { partition, sources }));
    assert_eq!(HashSet::from(digests).len(), digests.len());
}

#[test]
fn records_beyond_16_mib_are_in_chunks() {
    let mut writer = RecordsWriter::new().expect("a writer");
    // Values that lz4 cannot compress.
    let mut noise = 0x9e37_79b9_7f4a_7c15_u64;
    let mut value = vec![0; 4096];
    let mut chunks = Vec::new();
    for number in 0..10_000_u64 {
        for word in value.chunks_exact_mut(8) {
            noise = noise
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            word.copy_from_slice(&(noise ^ noise >> 29).to_le_bytes());
        }
        writer
            .push("s", &number.to_be_bytes(), Some(&value), None)
            .expect("pushes");
        chunks.extend(writer.sealed());
    }
    let collected = writer
        .finish(&BTreeMap::new(), IdleTimes::default(), Digest::ZERO)
        .expect("finishes");
    chunks.extend(collected.chunks);
    assert_eq!(chunks.len(), 2, "40 MiB");
    let mut keys = Vec::new();
    for (k, chunk) in chunks.iter().enumerate() {
        assert!(
            (CHUNK_BYTES..CHUNK_BYTES + (2 << 20)).contains(&chunk.len()),
            "{}",
            chunk.len()
        );
        let name = format!("log/7/a.0.1.5-aa.{k}");
        let bytes = encode_chunk(&ChunkHeader { name: name.clone() }, chunk).expect("encodes");
        keys.extend(
            decode_chunk(&name, &name, &bytes)
                .expect("reads")
                .iter()
                .map(|record| record.key.to_vec()),
        );
    }
    let chunked = HeadHeader {
        chunks: vec!["a".into(), "b".into()],
        ..header(10_000, collected.digest)
    };
    let head = encode_head(&chunked, &collected.payload).expect("encodes");
    let (_, records) = decode_head("x", &head).expect("reads");
    keys.extend(records.iter().map(|record| record.key.to_vec()));
    assert_eq!(
        keys,
        (0..10_000_u64)
            .map(|number| number.to_be_bytes().to_vec())
            .collect::<Vec<_>>()
    );
}

/// Prints the cost of a record:
/// `cargo test --release what_a_record_costs -- --ignored --nocapture`.
#[test]
#[ignore = "prints times"]
fn what_a_record_costs() {
    let start = std::time::Instant::now();
    let mut writer = RecordsWriter::new().expect("a writer");
    let value = [7; 60];
    for number in 0..500_000_u64 {
        writer
            .push(
                "rates",
                &number.to_be_bytes(),
                Some(&value),
                Some(Timestamp(number as i64)),
            )
            .expect("pushes");
    }
    let collected = writer
        .finish(&BTreeMap::new(), IdleTimes::default(), Digest::ZERO)
        .expect("finishes");
    println!(
        "write: {} ns a record, {} bytes",
        start.elapsed().as_nanos() / 500_000,
        collected.payload.len()
    );
    let bytes = encode_head(
        &header(collected.records, collected.digest),
        &collected.payload,
    )
    .expect("encodes");
    let start = std::time::Instant::now();
    let (_, records) = decode_head("x", &bytes).expect("reads");
    assert_eq!(records.iter().count(), 500_000);
    println!("read: {} ns a record", start.elapsed().as_nanos() / 500_000);
}
