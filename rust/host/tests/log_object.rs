//! The log object's format: golden bytes, damage of every kind, chunks.

use std::collections::BTreeMap;

use holdfast_core::{ErrorKind, Timestamp};
use holdfast_host::log::{
    CHUNK_BYTES, ChunkHeader, HeadHeader, Record, Records, RecordsWriter, decode_chunk,
    decode_head, decode_header, encode_chunk, encode_head,
};
use holdfast_host::protocol::{Attempt, Digest, Epoch, OperatorName, PartitionId, RunNumber};
use proptest::prelude::*;
use xxhash_rust::xxh3::xxh3_128;

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/head-v1.bin");

fn header(records: u64, digest: Digest) -> HeadHeader {
    HeadHeader {
        operator: OperatorName::new("join").expect("a name"),
        epoch: Epoch(7),
        partition: PartitionId(3),
        run: RunNumber(2),
        attempt: Attempt(11),
        base: Digest::ZERO,
        digest,
        input: Digest::of(b"input"),
        input_rows: 3,
        output_rows: 2,
        stream_times: BTreeMap::from([("rates".to_owned(), 1_000_000)]),
        records,
        chunks: Vec::new(),
    }
}

fn sample() -> Vec<Record<'static>> {
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

fn encode(records: &[Record<'_>]) -> Vec<u8> {
    let mut writer = RecordsWriter::new().expect("a writer");
    for record in records {
        writer
            .push(record.store, record.key, record.value, record.timestamp)
            .expect("pushes");
    }
    let collected = writer
        .finish(&BTreeMap::new(), Digest::ZERO)
        .expect("finishes");
    encode_head(
        &header(collected.records, collected.digest),
        &collected.payload,
    )
    .expect("encodes")
}

fn list(records: &Records) -> Vec<Record<'_>> {
    records.iter().collect()
}

fn with_checksum(mut body: Vec<u8>) -> Vec<u8> {
    let checksum = xxh3_128(&body).to_be_bytes();
    body.extend_from_slice(&checksum);
    body
}

#[test]
fn the_frame_is_these_bytes() {
    let json = r#"{"name":"log/x"}"#;
    let bytes = encode_chunk(
        &ChunkHeader {
            name: "log/x".into(),
        },
        b"payload",
    )
    .expect("encodes");
    let mut expected = b"HFLC\x01\x00\x10\x00\x00\x00".to_vec();
    expected.extend_from_slice(json.as_bytes());
    expected.extend_from_slice(b"payload");
    assert_eq!(bytes, with_checksum(expected));
}

#[test]
fn the_header_is_this_json() {
    let json = serde_json::to_string(&header(4, Digest::of(b"d"))).expect("serializes");
    let expected = format!(
        concat!(
            r#"{{"operator":"join","epoch":7,"partition":3,"run":2,"attempt":11,"#,
            r#""base":"00000000000000000000000000000000","#,
            r#""digest":"{}","input":"{}","input_rows":3,"output_rows":2,"#,
            r#""stream_times":{{"rates":1000000}},"records":4,"chunks":[]}}"#
        ),
        Digest::of(b"d"),
        Digest::of(b"input")
    );
    assert_eq!(json, expected);
}

/// The object as the first version wrote it: every later one must read it, and come to the same
/// digest.
#[test]
fn the_first_versions_object_can_be_read() {
    let bytes = std::fs::read(FIXTURE).expect("the fixture");
    let (header, records) = decode_head("head-v1.bin", &bytes).expect("reads");
    assert_eq!(list(&records), sample());
    assert_eq!(
        header,
        decode_header("new", &encode(&sample())).expect("reads")
    );
    assert_eq!(
        header.digest.to_string(),
        "490913c1d33781efc42507a15b59dd15"
    );
}

#[test]
#[ignore = "writes the fixture of a new format version"]
fn write_the_fixture() {
    std::fs::write(FIXTURE, encode(&sample())).expect("writes");
}

#[test]
fn an_object_cut_anywhere_is_damaged() {
    let bytes = encode(&sample());
    for end in 0..bytes.len() {
        let error = decode_head("log/7/join.3.2", &bytes[..end]).expect_err("cut");
        assert_eq!(error.kind(), ErrorKind::Restore, "{end}: {error}");
        assert!(
            error.to_string().contains("log/7/join.3.2") && error.to_string().contains("backup"),
            "{error}"
        );
    }
}

#[test]
fn an_object_with_a_flipped_bit_anywhere_is_damaged() {
    let bytes = encode(&sample());
    for place in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[place / 8] ^= 1 << (place % 8);
        assert_eq!(
            decode_head("x", &flipped).expect_err("flipped").kind(),
            ErrorKind::Restore,
            "{place}"
        );
        assert_eq!(
            decode_header("x", &flipped).expect_err("flipped").kind(),
            ErrorKind::Restore,
            "{place}"
        );
    }
}

#[test]
fn another_format_version_says_so() {
    let mut body = encode(&sample());
    body.truncate(body.len() - 16);
    body[4] = 2;
    let error = decode_head("x", &with_checksum(body)).expect_err("version 2");
    assert_eq!(error.kind(), ErrorKind::FormatVersion);
    assert!(error.to_string().contains("version 2"), "{error}");
}

#[test]
fn a_chunk_is_not_a_head_nor_another_chunk() {
    let chunk = encode_chunk(
        &ChunkHeader {
            name: "log/7/a.0.1.5-aa.0".into(),
        },
        b"",
    )
    .expect("encodes");
    assert!(
        decode_chunk("/the/root/log/7/a.0.1.5-aa.0", "log/7/a.0.1.5-aa.0", &chunk)
            .expect("reads")
            .is_empty()
    );
    let error = decode_chunk("/the/root/log/7/a.0.1.6-bb.0", "log/7/a.0.1.6-bb.0", &chunk)
        .expect_err("a twin's");
    for part in [
        "log/7/a.0.1.5-aa.0",
        "log/7/a.0.1.6-bb.0",
        "`holdfast epoch drop /the/root 7`",
    ] {
        assert!(
            error.to_string().contains(part),
            "{part:?} is not in {error}"
        );
    }
    assert_eq!(
        decode_head("x", &chunk).expect_err("not a head").kind(),
        ErrorKind::Restore
    );
}

#[test]
fn a_head_with_too_few_records_is_damaged() {
    let mut writer = RecordsWriter::new().expect("a writer");
    writer.push("s", b"k", None, None).expect("pushes");
    let collected = writer
        .finish(&BTreeMap::new(), Digest::ZERO)
        .expect("finishes");
    let bytes = encode_head(&header(2, collected.digest), &collected.payload).expect("encodes");
    assert_eq!(
        decode_head("x", &bytes).expect_err("one is missing").kind(),
        ErrorKind::Restore
    );
}

#[test]
fn the_digest_sees_everything_and_where_it_stands() {
    let digest = |records: &[Record<'_>], times: &[(&str, i64)], output: &[u8]| {
        let mut writer = RecordsWriter::new().expect("a writer");
        for record in records {
            writer
                .push(record.store, record.key, record.value, record.timestamp)
                .expect("pushes");
        }
        let times = times
            .iter()
            .map(|(store, time)| ((*store).to_owned(), *time))
            .collect();
        writer
            .finish(&times, Digest::of(output))
            .expect("finishes")
            .digest
    };
    let one = Record {
        store: "s",
        key: b"ab",
        value: Some(b"c"),
        timestamp: Some(Timestamp(1)),
    };
    let others: [Content<'_>; 10] = [
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
    let digests: std::collections::HashSet<Digest> =
        others.iter().map(|(r, t, o)| digest(r, t, o)).collect();
    assert_eq!(digests.len(), others.len());
}

#[test]
fn records_beyond_16_mib_go_into_chunks() {
    let mut writer = RecordsWriter::new().expect("a writer");
    // Values that lz4 cannot make smaller.
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
        .finish(&BTreeMap::new(), Digest::ZERO)
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

/// Not a test of speed: prints what a record costs here.
/// `cargo test --release -- --ignored --nocapture`
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
        .finish(&BTreeMap::new(), Digest::ZERO)
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

/// Records, stream times, output.
type Content<'a> = (&'a [Record<'a>], &'a [(&'a str, i64)], &'a [u8]);

type Owned = (bool, Vec<u8>, Option<Vec<u8>>, Option<i64>);

fn owned() -> impl Strategy<Value = Vec<Owned>> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..20);
    proptest::collection::vec(
        (
            any::<bool>(),
            bytes(),
            proptest::option::of(bytes()),
            any::<Option<i64>>(),
        ),
        0..50,
    )
}

proptest! {
    #[test]
    fn what_was_written_is_read(records in owned()) {
        let records: Vec<Record<'_>> = records
            .iter()
            .map(|(first, key, value, time)| Record {
                store: if *first { "first" } else { "second" },
                key,
                value: value.as_deref(),
                timestamp: time.map(Timestamp),
            })
            .collect();
        let bytes = encode(&records);
        let (header, read) = decode_head("x", &bytes).expect("reads");
        prop_assert_eq!(list(&read), records);
        prop_assert_eq!(header.records as usize, read.len());
    }

    #[test]
    fn any_bytes_are_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(),
        0..300)) {
        prop_assert_eq!(decode_head("x", &bytes).expect_err("noise").kind(), ErrorKind::Restore);
        prop_assert_eq!(decode_chunk("x", "x", &bytes).expect_err("noise").kind(),
            ErrorKind::Restore);
    }

    /// A checksum that fits does not make noise an object: lengths and header are looked at too.
    #[test]
    fn noise_with_a_checksum_is_refused_without_a_panic(
        version in 0_u16..3, length in any::<u32>(),
        rest in proptest::collection::vec(any::<u8>(), 0..200)
    ) {
        let mut body = b"HFLG".to_vec();
        body.extend_from_slice(&version.to_le_bytes());
        body.extend_from_slice(&(length % 300).to_le_bytes());
        body.extend_from_slice(&rest);
        let error = decode_head("x", &with_checksum(body)).expect_err("noise");
        prop_assert!(matches!(error.kind(), ErrorKind::Restore | ErrorKind::FormatVersion));
    }
}
