//! Hosts, directories and connections that go away.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use holdfast_core::{Error, ErrorKind, Result};
use holdfast_host::client::Client;
use holdfast_host::net::call::CallMessage;
use holdfast_host::operator::Worker;
use holdfast_host::session::{Routed, Session};

use crate::support::{
    Database, Host, HostProcess, Spark, TOKEN, batch, damage_tables, deleted, left, matched,
    refused, right, schema, unmatched,
};

#[test]
fn a_connection_that_drops_leaves_nothing() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    drop(
        Database::new(&spark, "a", 0)
            .pushed(host.connect(), &[right("EUR", 10, 100)])
            .unwrap(),
    );
    let done = Database::new(&spark, "a", 0)
        .attempt(2)
        .run(host.connect(), &[right("EUR", 11, 200)])
        .unwrap();
    assert!(!done.staged.adopted);
    assert_eq!(spark.objects(0), ["join.0.1"]);
    spark.commit(0);
    spark.begin(1);
    let next = Database::new(&spark, "a", 1)
        .run(host.connect(), &[left("EUR", 10, 1), left("EUR", 11, 2)])
        .unwrap();
    assert_eq!(next.rows, [unmatched(1), matched(2, 200, 11)]);
}

#[test]
fn a_consumer_that_stops_in_the_middle_of_the_output_leaves_nothing() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    // More than fits into the socket's buffers, so the host cannot have finished.
    let rows: Vec<_> = (0..200_000).map(|id| left("EUR", id, id)).collect();
    let mut output = Database::new(&spark, "a", 0)
        .pushed(host.connect(), &rows)
        .unwrap()
        .finish()
        .unwrap();
    assert!(output.next().expect("a batch").unwrap().num_rows() <= 10_000);
    drop(output);
    Database::new(&spark, "a", 0)
        .attempt(2)
        .run(host.connect(), &[])
        .unwrap();
    assert_eq!(
        spark.objects(0).len(),
        1,
        "the second attempt's, which would not have adopted the first one's"
    );
}

#[test]
fn a_connection_that_cannot_be_served_is_the_only_one_that_ends() {
    let (spark, host) = (Spark::new(), HostProcess::start());
    spark.begin(0);
    Database::new(&spark, "a", 0)
        .run(host.connect(), &[right("EUR", 10, 100)])
        .unwrap();
    spark.commit(0);
    // The host takes the connection, and has no handle left to hang up on it with. A session that
    // has just ended may give one back meanwhile.
    let refused = (0..1_000).any(|_| {
        host.leave_one_handle();
        Client::connect(&host.socket, TOKEN, Duration::from_secs(5)).is_err()
    });
    assert!(refused);
    host.leave_all_handles();
    spark.begin(1);
    let done = Database::new(&spark, "a", 1)
        .run(host.connect(), &[left("EUR", 10, 1)])
        .unwrap();
    assert_eq!(done.rows, [matched(1, 100, 10)]);
    assert!(
        host.log().contains("a connection cannot be served"),
        "{}",
        host.log()
    );
}

/// A worker that takes its output and is gone before the acknowledgement.
struct Gone;

impl Worker for Gone {
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
fn a_session_whose_worker_is_gone_stages_nothing() {
    let spark = Spark::new();
    spark.begin(0);
    let host = Arc::new(holdfast_host::host::Host::new(None, None));
    let request = Database::new(&spark, "a", 0).request.to_string();
    let Routed::Local(mut session, _) = Session::open(&host, request.as_bytes()).unwrap() else {
        panic!("no other host")
    };
    session.push(batch(0, &[right("EUR", 10, 100)])).unwrap();
    refused(session.finish(Some(&schema()), &mut Gone));
    assert!(spark.objects(0).is_empty());
}

#[test]
fn a_killed_host_is_an_error_that_says_the_task_is_retried() {
    let (spark, host) = (Spark::new(), HostProcess::start());
    spark.begin(0);
    let client = Database::new(&spark, "a", 0)
        .pushed(host.connect(), &[right("EUR", 10, 100)])
        .unwrap();
    host.kill();
    let error = match client.finish() {
        Err(error) => error,
        Ok(mut output) => output
            .find_map(Result::err)
            .expect("no host, no acknowledgement"),
    };
    assert_eq!(error.kind(), ErrorKind::InvalidState);
    assert!(error.to_string().contains("retries the task"), "{error}");
}

#[test]
fn a_killed_host_loses_nothing_that_was_staged() {
    let spark = Spark::new();
    // Each host stages one epoch, is killed while it holds it prepared, and the next one goes on.
    for epoch in 0..4 {
        let host = HostProcess::start();
        spark.begin(epoch);
        let rows = [right("EUR", 10 + epoch, epoch), left("EUR", 9 + epoch, 1)];
        let done = Database::new(&spark, "a", epoch)
            .run(host.connect(), &rows)
            .unwrap();
        let expected = if epoch == 0 {
            unmatched(1)
        } else {
            matched(1, epoch - 1, 9 + epoch)
        };
        assert_eq!(done.rows, [expected]);
        host.kill();
        spark.commit(epoch);
    }
    // All hosts found their predecessor's directory free.
    assert_eq!(
        std::fs::read_dir(spark.local(0))
            .unwrap()
            .filter(|file| file.as_ref().unwrap().path().is_dir())
            .count(),
        1
    );
}

#[test]
fn a_deleted_local_directory_comes_back_from_the_log() {
    let spark = Spark::new();
    let host = Host::start();
    for epoch in 0..3 {
        spark.begin(epoch);
        let rows = [
            right("EUR", 10 * epoch, epoch),
            right("USD", 10 * epoch, -epoch),
            deleted("JPY", epoch),
        ];
        Database::new(&spark, "a", epoch)
            .run(host.connect(), &rows)
            .unwrap();
        spark.commit(epoch);
    }
    let probe = [
        left("EUR", 5, 1),
        left("EUR", 15, 2),
        left("USD", 99, 3),
        left("JPY", 99, 4),
    ];
    let expected = [
        matched(1, 0, 0),
        matched(2, 1, 10),
        matched(3, -2, 20),
        unmatched(4),
    ];
    // Under a running host, and between two hosts.
    spark.delete_local();
    spark.begin(3);
    let mut done = Database::new(&spark, "a", 3)
        .run(host.connect(), &probe)
        .unwrap();
    done.rows.sort();
    assert_eq!(done.rows, expected);
    host.stop();
    spark.delete_local();
    let mut again = Database::new(&spark, "a", 3)
        .attempt(2)
        .run(Host::start().connect(), &probe)
        .unwrap();
    again.rows.sort();
    assert_eq!(
        (again.rows.as_slice(), again.staged.adopted),
        (expected.as_slice(), true)
    );
}

#[test]
fn a_state_that_is_ahead_by_a_lost_commit_is_rebuilt() {
    let (spark, host) = (Spark::new(), Host::start());
    for epoch in 0..3 {
        spark.begin(epoch);
        Database::new(&spark, "a", epoch)
            .run(host.connect(), &[right("EUR", 10 * epoch, epoch)])
            .unwrap();
        spark.commit(epoch);
    }
    spark.begin(3);
    Database::new(&spark, "a", 3)
        .run(host.connect(), &[])
        .unwrap();
    // The machine loses power: Spark's last commit and all after it is gone, the state has epoch 2.
    for lost in ["query/commits/2", "query/offsets/3"] {
        std::fs::remove_file(spark.path().join(lost)).unwrap();
    }
    std::fs::remove_dir_all(spark.path().join(format!("log/{:020}", 3))).unwrap();
    let replay = Database::new(&spark, "b", 2)
        .run(host.connect(), &[right("EUR", 20, 2)])
        .unwrap();
    assert!(!replay.staged.adopted);
    spark.commit(2);
    spark.begin(3);
    let done = Database::new(&spark, "b", 3)
        .run(host.connect(), &[left("EUR", 99, 1)])
        .unwrap();
    assert_eq!(done.rows, [matched(1, 2, 20)]);
}

#[test]
fn a_damaged_local_database_comes_back_from_the_log() {
    let spark = Spark::new();
    let host = Host::start();
    spark.begin(0);
    Database::new(&spark, "a", 0)
        .run(host.connect(), &[right("EUR", 10, 100)])
        .unwrap();
    spark.commit(0);
    host.stop();
    let folder = std::fs::read_dir(spark.local(0))
        .unwrap()
        .map(|file| file.unwrap().path())
        .find(|path| path.is_dir())
        .unwrap();
    let manifest = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    for file in manifest.filter(|path| {
        path.file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with("MANIFEST")
    }) {
        std::fs::write(file, b"not a manifest").unwrap();
    }
    spark.begin(1);
    let host = Host::start();
    let done = Database::new(&spark, "a", 1)
        .run(host.connect(), &[left("EUR", 10, 1)])
        .unwrap();
    assert_eq!(done.rows, [matched(1, 100, 10)]);
}

#[test]
fn a_local_database_whose_damage_shows_when_it_is_read_comes_back_from_the_log() {
    // RocksDB may merge the file by itself, where a view was alive when the file was written, and
    // the host makes the database anew then.
    assert!(
        (0..5).any(|_| damage_shows_when_it_is_read()),
        "the damage was found at once each time"
    );
}

/// False if it was found before.
fn damage_shows_when_it_is_read() -> bool {
    let (spark, host) = (Spark::new(), Host::start());
    spark.epoch(0, || {
        Database::new(&spark, "a", 0)
            .run(host.connect(), &[right("EUR", 10, 100)])
            .unwrap()
    });
    // Its changes enter the database.
    spark.epoch(1, || {
        Database::new(&spark, "a", 1)
            .run(host.connect(), &[])
            .unwrap()
    });
    host.stop();
    assert!(damage_tables(&spark, b"EUR") > 0);
    spark.begin(2);
    let host = Host::start();
    let rows = [left("EUR", 10, 1)];
    let first = Database::new(&spark, "a", 2).run(host.connect(), &rows);
    let is_refused = first.is_err();
    let done = first.unwrap_or_else(|error| {
        assert_eq!(error.kind(), ErrorKind::StoreCorrupted, "{error}");
        assert!(
            error
                .to_string()
                .ends_with("made anew for the task's retry: nothing that was committed is lost"),
            "{error}"
        );
        Database::new(&spark, "a", 2)
            .attempt(2)
            .run(host.connect(), &rows)
            .unwrap()
    });
    assert_eq!(done.rows, [matched(1, 100, 10)]);
    is_refused
}

#[test]
fn the_next_host_starts_while_the_one_before_closes_its_databases() {
    let (spark, host) = (Spark::new(), Host::start());
    // So many that the flush takes its time.
    let rows: Vec<_> = (0..100_000_i64)
        .map(|n| right(&format!("key-{n}"), n, n))
        .collect();
    spark.epoch(0, || {
        Database::new(&spark, "a", 0)
            .run(host.connect(), &rows)
            .unwrap()
    });
    // Its changes enter the database.
    spark.epoch(1, || {
        Database::new(&spark, "a", 1)
            .run(host.connect(), &[])
            .unwrap()
    });
    let next = host.replaced();
    spark.begin(2);
    let done = Database::new(&spark, "a", 2)
        .run(next.connect(), &[left("key-7", 10, 1)])
        .unwrap();
    assert_eq!(done.rows, [matched(1, 7, 7)]);
}

#[test]
fn a_large_epoch_goes_through_chunks_and_comes_back() {
    let spark = Spark::new();
    let host = Host::start();
    spark.begin(0);
    // Values that lz4 cannot shrink, so that the records pass 16 MiB.
    let rows: Vec<_> = (0..700_000_i64)
        .map(|n| {
            right(
                &format!(
                    "{:016x}",
                    n.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64.cast_signed())
                ),
                n,
                n,
            )
        })
        .collect();
    let done = Database::new(&spark, "a", 0)
        .run(host.connect(), &rows)
        .unwrap();
    assert_eq!(done.staged.records, 700_000);
    let retry = Database::new(&spark, "a", 0)
        .attempt(2)
        .run(host.connect(), &rows)
        .unwrap();
    assert!(retry.staged.adopted);
    let objects = spark.objects(0);
    assert!(objects.len() > 1, "{objects:?}");
    assert!(
        objects
            .iter()
            .all(|name| name == "join.0.1" || name.starts_with("join.0.1.1-")),
        "the twin's chunks are gone: {objects:?}"
    );
    spark.commit(0);
    host.stop();
    spark.delete_local();
    spark.begin(1);
    let probe: Vec<_> = rows
        .iter()
        .step_by(70_000)
        .map(|row| match row {
            crate::support::Row::Right { key, rate, .. } => {
                left(key.as_deref().unwrap(), 800_000, *rate)
            }
            crate::support::Row::Left { .. } => unreachable!("all are right rows"),
        })
        .collect();
    let done = Database::new(&spark, "a", 1)
        .run(Host::start().connect(), &probe)
        .unwrap();
    assert_eq!(done.rows.len(), 10);
    assert!(
        done.rows.iter().all(|row| row.rate == Some(row.id)),
        "{:?}",
        done.rows
    );
}

#[test]
fn a_host_ends_promptly_with_its_executor() {
    let noticed = Host::start().stop();
    assert!(noticed < Duration::from_secs(20), "it took {noticed:?}");
}

#[test]
fn no_host_and_a_wrong_token_are_plain_io_errors() {
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
fn an_error_in_the_middle_of_the_input_reaches_a_worker_that_is_still_sending() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    let db = Database::new(&spark, "a", 0).partition(0, 2);
    let mut client = host.connect();
    client.open(&db.request.to_string()).unwrap();
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
