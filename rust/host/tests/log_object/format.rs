//! The bytes of an object, and an object of the current version.

use holdfast_core::Timestamp;
use holdfast_host::log::{ChunkHeader, Record, decode_head, decode_header, encode_chunk};
use holdfast_host::protocol::Digest;
use proptest::prelude::*;

use crate::support::{encode, header, list, sample, with_checksum};

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/head-v2.bin");

#[test]
fn the_envelope_has_these_bytes() {
    let json = r#"{"name":"log/x"}"#;
    let bytes = encode_chunk(
        &ChunkHeader {
            name: "log/x".into(),
        },
        b"payload",
    )
    .expect("encodes");
    let mut expected = b"HFLC\x02\x00\x10\x00\x00\x00".to_vec();
    expected.extend_from_slice(json.as_bytes());
    let mut expected = with_checksum(expected);
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
            r#""digest":"{}","input":"{}","offsets":"{}","planned_at":9,"#,
            r#""idle_since":null,"sources_idle_since":null,"#,
            r#""counts":{{"input_rows":3,"output_rows":2,"matched":0,"dropped":0,"late":1,"#,
            r#""expired":0,"ahead":0}},"#,
            r#""stream_time":1000000,"stream_times":{{"rates":1000000}},"records":4,"chunks":[],"#,
            r#""far_future":null}}"#
        ),
        Digest::of(b"d"),
        Digest::of(b"input"),
        Digest::of(b"offsets")
    );
    assert_eq!(json, expected);
}

/// Every later version must read this object, and compute the same digest.
#[test]
fn an_object_of_this_version_can_be_read() {
    let bytes = std::fs::read(FIXTURE).expect("the fixture");
    let (header, records) = decode_head("head-v2.bin", &bytes).expect("reads");
    assert_eq!(list(&records), sample());
    assert_eq!(
        Some(header.clone()),
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
    fn records_survive_a_round_trip(records in owned()) {
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
}
