//! Objects that are cut, changed or in the place of another object.

use std::collections::BTreeMap;

use holdfast_core::ErrorKind;
use holdfast_host::log::{
    ChunkHeader, RecordsWriter, decode_chunk, decode_head, decode_header, encode_chunk, encode_head,
};
use holdfast_host::protocol::{Digest, IdleTimes};
use proptest::prelude::*;

use crate::support::{encode, header, sample, with_checksum};

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
    }
}

#[test]
fn a_header_with_a_flipped_bit_is_damaged_without_its_payload() {
    let bytes = encode(&sample());
    let length = usize::from(bytes[6]) + 256 * usize::from(bytes[7]);
    let prefix = &bytes[..10 + length + 16];
    let read = |prefix: &[u8]| decode_header("x", prefix);
    assert!(read(prefix).expect("reads").is_some());
    assert!(read(&prefix[..prefix.len() - 1]).expect("reads").is_none());
    for place in 0..prefix.len() * 8 {
        let mut flipped = prefix.to_vec();
        flipped[place / 8] ^= 1 << (place % 8);
        // A longer length needs more bytes than there are.
        match read(&flipped) {
            Ok(header) => assert!(header.is_none() && (48..80).contains(&place), "{place}"),
            Err(error) => assert!(
                matches!(error.kind(), ErrorKind::Restore | ErrorKind::FormatVersion),
                "{place}: {error}"
            ),
        }
    }
}

#[test]
fn another_format_version_is_named() {
    let mut body = encode(&sample());
    body.truncate(body.len() - 16);
    body[4] = 3;
    let error = decode_head("x", &with_checksum(body)).expect_err("version 3");
    assert_eq!(error.kind(), ErrorKind::FormatVersion);
    assert!(error.to_string().contains("version 3"), "{error}");
}

#[test]
fn a_chunk_is_refused_as_a_head_and_as_another_chunk() {
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
        .expect_err("another attempt's");
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
        .finish(&BTreeMap::new(), IdleTimes::default(), Digest::ZERO)
        .expect("finishes");
    let bytes = encode_head(&header(2, collected.digest), &collected.payload).expect("encodes");
    assert_eq!(
        decode_head("x", &bytes).expect_err("one is missing").kind(),
        ErrorKind::Restore
    );
}

proptest! {
    #[test]
    fn any_bytes_are_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(),
        0..300)) {
        prop_assert_eq!(decode_head("x", &bytes).expect_err("noise").kind(), ErrorKind::Restore);
        prop_assert_eq!(decode_chunk("x", "x", &bytes).expect_err("noise").kind(),
            ErrorKind::Restore);
    }

    /// Noise with a correct checksum is refused: lengths and header are checked too.
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
