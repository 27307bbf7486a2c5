//! Log objects.

use fastrand::Rng;
use holdfast_core::Timestamp;
use holdfast_host::log;
use holdfast_host::log::{HeadHeader, Record, RecordsWriter};
use holdfast_host::protocol::{
    Attempt, Counts, Digest, Epoch, IdleTimes, OperatorName, PartitionId, RunNumber,
};
use std::collections::BTreeMap;

use crate::feed::{bytes, feed_made, rng, sealed, text, times};

/// A record of the log: store, key, value, time.
type Owned = (String, Vec<u8>, Option<Vec<u8>>, Option<Timestamp>);

fn owned(record: Record<'_>) -> Owned {
    (
        record.store.to_owned(),
        record.key.to_vec(),
        record.value.map(<[u8]>::to_vec),
        record.timestamp,
    )
}

fn borrowed((store, key, value, timestamp): &Owned) -> Record<'_> {
    Record {
        store,
        key,
        value: value.as_deref(),
        timestamp: *timestamp,
    }
}

fn drawn_record(rng: &mut Rng) -> Owned {
    (
        text(rng, 2),
        bytes(rng, 20),
        rng.bool().then(|| bytes(rng, 60)),
        rng.bool().then(|| Timestamp(rng.i64(..))),
    )
}

/// The head of an epoch with these records, without its checksum.
fn head<'a>(records: impl IntoIterator<Item = Record<'a>>) -> Vec<u8> {
    let mut writer = RecordsWriter::new().expect("a writer");
    for record in records {
        writer
            .push(record.store, record.key, record.value, record.timestamp)
            .expect("pushes");
    }
    let collected = writer
        .finish(&BTreeMap::new(), IdleTimes::default(), Digest::ZERO)
        .expect("finishes");
    let header = HeadHeader {
        operator: OperatorName::new("join").expect("a name"),
        epoch: Epoch(7),
        partition: PartitionId(3),
        run: RunNumber(2),
        attempt: Attempt(11),
        base: Digest::ZERO,
        digest: collected.digest,
        input: Digest::ZERO,
        offsets: Digest::ZERO,
        planned_at: None,
        idle_since: None,
        sources_idle_since: None,
        counts: Counts::default(),
        stream_time: None,
        stream_times: BTreeMap::from([("rates".to_owned(), 5)]),
        records: collected.records,
        chunks: Vec::new(),
        far_future: None,
    };
    let mut bytes = log::encode_head(&header, &collected.payload).expect("encodes");
    bytes.truncate(bytes.len() - size_of::<u128>());
    bytes
}

#[test]
fn decoding_log_objects_never_panics() {
    let mut rng = rng(1);
    let made = (0..10).map(|_| {
        let records: Vec<Owned> = (0..rng.usize(..40))
            .map(|_| drawn_record(&mut rng))
            .collect();
        let bytes = head(records.iter().map(borrowed));
        let (_, read) = log::decode_head("an object", &sealed(&bytes)).expect("reads");
        assert_eq!(read.iter().map(owned).collect::<Vec<_>>(), records);
        bytes
    });
    feed_made("head", made.collect(), times(2_000), |bytes| {
        let sealed_bytes = sealed(bytes);
        for bytes in [bytes, sealed_bytes.as_slice()] {
            let _ = log::decode_header("an object", bytes);
            let _ = log::decode_chunk("an object", "an object", bytes);
            if let Ok((_, records)) = log::decode_head("an object", bytes) {
                let (_, again) = log::decode_head("an object", &sealed(&head(records.iter())))
                    .expect("reads again");
                assert!(again.iter().eq(records.iter()), "the records differ");
            }
        }
    });
}
