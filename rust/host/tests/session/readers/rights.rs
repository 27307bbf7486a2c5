//! What a reader's token permits.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use holdfast_core::ErrorKind;
use holdfast_host::net::message::{self, MessageKind};
use holdfast_host::net::stored_read;
use holdfast_host::protocol::Epoch;
use holdfast_host::reader::{CacheSettings, ConditionName, Offline, ReadFrom, StateReader};
use holdfast_host::root::StorageOptions;
use holdfast_host::tables::{ReadCall, ReadRows};

use super::{Request, address, all_versions, greeted, read_of, reader, receive, send, target};
use crate::support::{Host, Spark, TaskRequest, right};

/// Runs epoch 0 with one rate.
fn first_epoch(spark: &Spark, host: &Host) {
    spark.begin(0);
    TaskRequest::new(spark, "a", 0)
        .run(host.connect(), &[right("EUR", 10, 100)])
        .unwrap();
    spark.commit(0);
}

#[test]
fn reader_cannot_open_a_session() {
    let (spark, host) = (Spark::new(), Host::on_a_cluster());
    first_epoch(&spark, &host);
    let mut stream = reader(&address(&spark));
    spark.begin(1);
    let open = TaskRequest::new(&spark, "a", 1).request.to_string();
    message::send(&mut stream, MessageKind::Open, open.as_bytes()).unwrap();
    assert_eq!(receive(&mut stream).0, MessageKind::Error);
    assert!(spark.objects(1).is_empty());
}

#[test]
fn reader_reads_only_the_root_of_its_token() {
    let (spark, other) = (Spark::new(), Spark::new());
    let host = Host::on_a_cluster();
    first_epoch(&spark, &host);
    first_epoch(&other, &host);
    let mut stream = reader(&address(&spark));
    for foreign in [
        all_versions(&other),
        Request::Pin {
            target: target(&other),
        },
        Request::Metrics {
            root: target(&other).root,
        },
    ] {
        send(&mut stream, &foreign);
        let (kind, payload) = receive(&mut stream);
        assert_eq!(kind, MessageKind::Refused);
        let error = message::decode_error(&payload);
        assert_eq!(error.kind().name(), ErrorKind::InvalidValue.name());
    }
    let foreign = stored_read::encode(&read_of(&other, &["EUR"])).unwrap();
    message::send(&mut stream, MessageKind::ReadStored, &foreign).unwrap();
    assert_eq!(receive(&mut stream).0, MessageKind::Refused);
    send(&mut stream, &all_versions(&spark));
    assert_eq!(receive(&mut stream).0, MessageKind::Answer);
    // A reader with the other root's token may send the same request.
    let mut stream = reader(&address(&other));
    send(&mut stream, &all_versions(&other));
    assert_eq!(receive(&mut stream).0, MessageKind::Answer);
}

/// Checks that a reader that cannot read the addresses of the hosts reads rows, and reports.
fn check_without_addresses(spark: &Spark) {
    let (root, options) = (spark.path().to_str().unwrap(), StorageOptions::default());
    let reader = StateReader::connect(root, &options, CacheSettings::default()).unwrap();
    assert!(reader.metrics().is_err());
    let report = reader.report().unwrap();
    assert_eq!(report.epoch, Some(Epoch(0)));
    let conditions = report.partitions.iter().map(|one| one.condition.name);
    let conditions: Vec<ConditionName> = conditions.collect();
    assert_eq!(conditions, [ConditionName::Unknown]);
    let keys: ArrayRef = Arc::new(StringArray::from(vec!["EUR"]));
    let keys = RecordBatch::try_from_iter([("currency", keys)]).unwrap();
    let call = ReadCall {
        rows: ReadRows::Get,
        ..ReadCall::default()
    };
    let from = ReadFrom {
        exactly: None,
        at_least: None,
        timeout: Duration::from_secs(60),
        offline: Offline::Auto,
        isolation_level: None,
        stale_ok: false,
    };
    let found = reader.get(("join", "table"), &call, &keys, from).unwrap();
    assert_eq!(found.state.epoch, Epoch(0));
}

#[test]
fn reader_that_cannot_read_addresses_reads_and_reports() {
    let (spark, host) = (Spark::new(), Host::on_a_cluster());
    first_epoch(&spark, &host);
    let addresses = spark.path().join("readers/join");
    // They cannot be listed. (The user of a test may list each folder.)
    symlink("..", addresses.join("loop")).unwrap();
    check_without_addresses(&spark);
    fs::remove_file(addresses.join("loop")).unwrap();
    // They can be listed, but not read.
    for file in fs::read_dir(addresses.join("0")).unwrap() {
        fs::write(file.unwrap().path(), "{").unwrap();
    }
    check_without_addresses(&spark);
}

#[test]
fn wrong_token_is_refused() {
    let (spark, host) = (Spark::new(), Host::on_a_cluster());
    first_epoch(&spark, &host);
    let mut address = address(&spark);
    for wrong in ["", "a token that is not there", &"0".repeat(64)] {
        address["token"] = wrong.into();
        assert_eq!(greeted(&address).1, MessageKind::Error, "{wrong}");
    }
}
