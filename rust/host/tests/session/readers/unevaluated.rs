//! Reads of an operator that was not evaluated to its end in its first epoch.

use holdfast_core::ErrorKind;
use holdfast_host::net::call::CallMessage;
use holdfast_host::net::message::MessageKind;
use holdfast_host::net::read::{self, READ, ReadAnswer};

use super::{address, all_versions, reader, receive, send};
use crate::support::{Host, Spark, TaskRequest, left, refused, right};

#[test]
fn read_does_not_make_an_unevaluated_epoch_final() {
    let (spark, host) = (Spark::new(), Host::on_a_cluster());
    spark.begin(0);
    let join = |epoch| TaskRequest::new(&spark, "a", epoch);
    let cut_off = join(0).pushed(host.connect(), &[right("EUR", 50, 1)]);
    drop(cut_off.unwrap());
    join(0)
        .with("/operator/name", "other")
        .run(host.connect(), &[right("EUR", 10, 100)])
        .unwrap();
    spark.commit(0);
    let mut stream = reader(&address(&spark));
    send(&mut stream, &all_versions(&spark));
    let (kind, payload) = receive(&mut stream);
    assert_eq!(kind, MessageKind::Answer);
    let answer = CallMessage::decode(payload).unwrap();
    let answer: ReadAnswer = read::parse(answer.attribute(READ)).unwrap();
    assert!(matches!(answer, ReadAnswer::Absent), "{answer:?}");
    spark.begin(1);
    let error = refused(join(1).run(host.connect(), &[left("EUR", 60, 1)]));
    assert_eq!(error.kind(), ErrorKind::StateMismatch, "{error}");
    assert!(
        error.to_string().contains("join was not evaluated"),
        "{error}"
    );
}
