//! Connections that drop, and workers that disconnect.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use holdfast_core::{Error, ErrorKind, Result};
use holdfast_host::client::Client;
use holdfast_host::net::call::CallMessage;
use holdfast_host::operator::Worker;
use holdfast_host::session::{Routed, Session};

use crate::support::{
    Host, HostProcess, Spark, TOKEN, TaskRequest, batch, left, matched, refused, right, schema,
    unmatched,
};

#[test]
fn dropped_connection_leaves_nothing() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    drop(
        TaskRequest::new(&spark, "a", 0)
            .pushed(host.connect(), &[right("EUR", 10, 100)])
            .unwrap(),
    );
    let done = TaskRequest::new(&spark, "a", 0)
        .attempt(2)
        .run(host.connect(), &[right("EUR", 11, 200)])
        .unwrap();
    assert!(!done.staged.adopted);
    assert_eq!(spark.objects(0), ["join.0.1"]);
    spark.commit(0);
    spark.begin(1);
    let next = TaskRequest::new(&spark, "a", 1)
        .run(host.connect(), &[left("EUR", 10, 1), left("EUR", 11, 2)])
        .unwrap();
    assert_eq!(next.rows, [unmatched(1), matched(2, 200, 11)]);
}

#[test]
fn consumer_that_stops_within_the_output_leaves_nothing() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    // More than the socket's buffers hold, so the host cannot have finished.
    let rows: Vec<_> = (0..200_000).map(|id| left("EUR", id, id)).collect();
    let mut output = TaskRequest::new(&spark, "a", 0)
        .pushed(host.connect(), &rows)
        .unwrap()
        .finish()
        .unwrap();
    assert!(output.next().expect("a batch").unwrap().num_rows() <= 10_000);
    drop(output);
    TaskRequest::new(&spark, "a", 0)
        .attempt(2)
        .run(host.connect(), &[])
        .unwrap();
    assert_eq!(
        spark.objects(0).len(),
        1,
        "the second attempt staged: with other input it cannot adopt an object of the first"
    );
}

#[test]
fn connection_that_cannot_be_served_ends_alone() {
    let (spark, host) = (Spark::new(), HostProcess::start());
    spark.begin(0);
    TaskRequest::new(&spark, "a", 0)
        .run(host.connect(), &[right("EUR", 10, 100)])
        .unwrap();
    spark.commit(0);
    // The host accepts the connection and has no file handle left to duplicate it. A session that
    // has just ended may release a handle meanwhile.
    let refused = (0..1_000).any(|_| {
        host.leave_one_handle();
        Client::connect(&host.socket, TOKEN, Duration::from_secs(5)).is_err()
    });
    assert!(refused);
    host.leave_all_handles();
    spark.begin(1);
    let done = TaskRequest::new(&spark, "a", 1)
        .run(host.connect(), &[left("EUR", 10, 1)])
        .unwrap();
    assert_eq!(done.rows, [matched(1, 100, 10)]);
    assert!(
        host.log().contains("a connection cannot be served"),
        "{}",
        host.log()
    );
}

/// A worker that reads its output and disconnects before the acknowledgement.
struct DisconnectedWorker;

impl Worker for DisconnectedWorker {
    fn emit(&mut self, _: RecordBatch) -> Result<()> {
        Ok(())
    }

    fn call(&mut self) -> Result<CallMessage> {
        self.check_alive().map(|()| CallMessage::empty())
    }

    fn answer(&mut self, _: &CallMessage) -> Result<()> {
        self.check_alive()
    }

    fn refuse(&mut self, _: &Error) -> Result<()> {
        self.check_alive()
    }

    fn check_alive(&mut self) -> Result<()> {
        Err(Error::new(ErrorKind::InvalidState, "the worker is gone"))
    }
}

#[test]
fn session_without_its_worker_stages_nothing() {
    let spark = Spark::new();
    spark.begin(0);
    let host = Arc::new(holdfast_host::host::Host::new(None, None));
    let request = TaskRequest::new(&spark, "a", 0).request.to_string();
    let Routed::Local(mut session, _) = Session::open(&host, request.as_bytes()).unwrap() else {
        panic!("no other host")
    };
    session.push(batch(0, &[right("EUR", 10, 100)])).unwrap();
    refused(session.finish(Some(&schema()), &mut DisconnectedWorker));
    assert!(spark.objects(0).is_empty());
}

#[test]
fn missing_host_and_wrong_token_are_io_errors() {
    let host = Host::start();
    let socket = host.socket.clone();
    let connect = |token| {
        Client::connect(&socket, token, Duration::from_secs(5))
            .err()
            .expect("refused")
            .kind()
    };
    assert_eq!(connect("wrong"), std::io::ErrorKind::PermissionDenied);
    assert!(Client::connect(&socket, TOKEN, Duration::from_secs(5)).is_ok());
    host.stop();
    assert_eq!(connect(TOKEN), std::io::ErrorKind::NotFound);
}

#[test]
fn error_within_the_input_reaches_a_worker_that_is_still_sending() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    let task = TaskRequest::new(&spark, "a", 0).partition(0, 2);
    let mut client = host.connect();
    client.open(&task.request.to_string()).unwrap();
    let rows: Vec<_> = (0..50_000).map(|id| left("EUR", id, id)).collect();
    let batch = batch(1, &rows);
    let error = (0..100).find_map(|_| client.push(&batch).err());
    let error = error.unwrap_or_else(|| {
        refused(
            client
                .finish()
                .and_then(|output| output.collect::<Result<Vec<_>>>()),
        )
    });
    assert!(
        error.to_string().contains("got rows of partition 1"),
        "{error}"
    );
}
