//! What a reader's token permits.

use holdfast_core::ErrorKind;
use holdfast_host::net::message::{self, MessageKind};
use holdfast_host::net::stored_read;

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
