//! Writes a root with an object of each kind.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use holdfast_host::log::{RecordsWriter, decode_payload, encode_head};
use holdfast_host::protocol::{Digest, Epoch, IdleTimes, PartitionId, RunNumber};
use holdfast_host::root::{ChunkName, FollowerName, Root};
use serde_json::Value;

use super::kinds::files;
use super::{FIXTURE, IDLE, LAST, REWOUND, SKIPPED, compute, name, rows};
use crate::support::{Host, Row, Spark, wait_until};

/// Writes a root with an object of each kind.
pub(super) fn write(spark: &Spark) {
    let epoch = |host: &Host, run: &str, epoch: i64, rows: &[Row]| {
        compute((spark, host), ("writer", run), epoch, rows);
        spark.commit(epoch);
    };
    let host = Host::on_a_cluster();
    for number in [0, 1] {
        epoch(&host, "a", number, &rows(number, number));
    }
    wait_for_snapshots(spark, Epoch(0));
    spark.begin_with_heartbeat(SKIPPED, SKIPPED, SKIPPED);
    spark.commit(SKIPPED);
    epoch(&host, "a", 3, &rows(3, 3));
    wait_for_snapshots(spark, Epoch(SKIPPED));
    epoch(&host, "a", REWOUND, &rows(REWOUND, 0));
    host.stop();
    spark.open_root().rewind(Epoch(REWOUND)).unwrap();
    let host = Host::on_a_cluster();
    epoch(&host, "c", REWOUND, &rows(REWOUND, 104));
    epoch(&host, "c", IDLE, &[]);
    epoch(&host, "c", LAST, &rows(LAST, 106));
    host.stop();

    let root = spark.open_root();
    store_records_in_a_chunk(spark, &root);
    root.followers
        .put(&FollowerName::new("billing").unwrap(), Epoch(1))
        .unwrap();
    // As hosts leave them that are killed before they remove anything.
    root.log.mark_trim(Epoch(1), RunNumber(1)).unwrap();
    let oldest = root.snapshots.list(&name("join"), PartitionId(0)).unwrap();
    root.snapshots.mark_removal(oldest.last().unwrap()).unwrap();
}

/// Waits until each operator has a snapshot of this epoch.
fn wait_for_snapshots(spark: &Spark, epoch: Epoch) {
    let root = spark.open_root();
    let exists = |operator| {
        let found = root.snapshots.list(&name(operator), PartitionId(0));
        found.unwrap().iter().any(|id| id.epoch == epoch)
    };
    wait_until(
        || exists("join") && exists("visits"),
        || format!("no snapshot of epoch {epoch}"),
    );
}

/// Moves the records of a head into a chunk, as if they exceeded the limit of a head.
fn store_records_in_a_chunk(spark: &Spark, root: &Root) {
    let file = spark.path().join(format!("log/{LAST:020}/join.0.3"));
    let bytes = fs::read(&file).unwrap();
    let (mut header, payload) = decode_payload("head", &bytes).unwrap();
    let chunk = ChunkName {
        epoch: header.epoch,
        object: header.id(),
        attempt: header.attempt,
        nonce: "0123456789abcdef".to_owned(),
        index: 1,
    };
    root.log.put_chunk(&chunk, payload).unwrap();
    header.chunks = vec![chunk.to_string()];
    let empty = RecordsWriter::new()
        .and_then(|writer| writer.finish(&BTreeMap::new(), IdleTimes::default(), Digest::ZERO))
        .unwrap();
    fs::write(file, encode_head(&header, &empty.payload).unwrap()).unwrap();
}

/// Writes the fixture.
#[test]
#[ignore = "scripts/fixtures runs it"]
fn write_root_fixture() {
    let spark = Spark::new();
    write(&spark);
    fs::create_dir_all(FIXTURE).unwrap();
    Spark::replace_root(spark.path(), Path::new(FIXTURE));
    // The address of this host for readers means nothing elsewhere.
    for file in files(Path::new(FIXTURE)) {
        if file.starts_with("readers") {
            let file = Path::new(FIXTURE).join(file);
            let mut address: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
            for (field, value) in [
                ("machine", "machine"),
                ("socket", "socket"),
                ("token", "token"),
            ] {
                address[field] = value.into();
            }
            fs::write(file, address.to_string()).unwrap();
        }
    }
}
