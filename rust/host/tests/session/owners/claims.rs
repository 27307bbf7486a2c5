//! Which host serves a partition.

use std::fs;
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::thread;

use holdfast_core::ErrorKind;
use holdfast_host::client::Client;

use super::{IMPATIENT, first_epoch, terms};
use crate::support::{Host, HostProcess, Spark, TOKEN, TaskRequest, left, matched, refused, right};

/// Connects to a host; the client waits only briefly for other hosts.
fn impatient(host: &Host) -> Client {
    Client::connect(&host.socket, TOKEN, IMPATIENT).unwrap()
}

#[test]
fn owner_serves_a_task_of_another_executor() {
    let spark = Spark::new();
    let (a, b) = (Host::on_a_cluster(), Host::on_a_cluster());
    first_epoch(&spark, a.connect());
    spark.begin(1);
    let done = TaskRequest::new(&spark, "a", 1)
        .run(
            b.connect(),
            &[
                right("EUR", 20, 200),
                left("EUR", 25, 1),
                left("EUR", 15, 2),
            ],
        )
        .unwrap();
    assert_eq!(done.rows, [matched(2, 100, 10), matched(1, 200, 20)]);
    assert_eq!(
        terms(&spark),
        ["1.1"],
        "ownership does not follow the tasks"
    );
    let databases = fs::read_dir(spark.local(0))
        .unwrap()
        .filter(|file| file.as_ref().unwrap().path().is_dir())
        .count();
    assert_eq!(databases, 1, "the second host has opened none");
}

#[test]
fn concurrent_hosts_agree_on_one_owner() {
    let spark = Spark::new();
    let hosts = [
        Host::on_a_cluster(),
        Host::on_a_cluster(),
        Host::on_a_cluster(),
    ];
    for epoch in 0..3 {
        spark.begin(epoch);
        let spark = &spark;
        std::thread::scope(|scope| {
            for (attempt, host) in hosts.iter().enumerate() {
                let task = TaskRequest::new(spark, "a", epoch).attempt(attempt as i64);
                scope.spawn(move || {
                    task.run(host.connect(), &[right("EUR", epoch, epoch)])
                        .unwrap()
                });
            }
        });
        assert_eq!(terms(spark), ["1.1"]);
        spark.commit(epoch);
    }
}

#[test]
fn attempt_on_another_executor_adopts_what_the_first_staged() {
    let spark = Spark::new();
    let (a, b) = (Host::on_a_cluster(), Host::on_a_cluster());
    spark.begin(0);
    let rows = [right("EUR", 10, 100), left("EUR", 10, 1)];
    let slow = TaskRequest::new(&spark, "a", 0)
        .pushed(a.connect(), &rows)
        .unwrap();
    let twin = TaskRequest::new(&spark, "a", 0)
        .attempt(2)
        .run(b.connect(), &rows)
        .unwrap();
    assert!(!twin.staged.adopted);
    let mut slow = slow.finish().unwrap();
    assert_eq!(
        slow.by_ref()
            .map(|batch| batch.unwrap().num_rows())
            .sum::<usize>(),
        1
    );
    assert!(slow.staged().unwrap().contains(r#""adopted":true"#));
    assert_eq!(spark.objects(0), ["join.0.1"]);
}

#[test]
fn killed_host_with_a_prepared_epoch_is_replaced() {
    let spark = Spark::new();
    let (a, b) = (HostProcess::on_a_cluster(), Host::on_a_cluster());
    first_epoch(&spark, a.connect());
    a.kill();
    spark.begin(1);
    let done = TaskRequest::new(&spark, "a", 1)
        .run(impatient(&b), &[left("EUR", 10, 1)])
        .unwrap();
    assert_eq!(done.rows, [matched(1, 100, 10)]);
    assert_eq!(terms(&spark), ["1.1", "1.2"]);
}

#[test]
fn old_claims_are_deleted() {
    let spark = Spark::new();
    // Micro-batches so far apart that the host ends between them.
    for epoch in 0..20 {
        spark.begin(epoch);
        TaskRequest::new(&spark, "a", epoch)
            .run(
                impatient(&Host::on_a_cluster()),
                &[right("EUR", epoch, epoch)],
            )
            .unwrap();
        spark.commit(epoch);
    }
    let terms = terms(&spark);
    assert_eq!(
        (terms.len(), terms.last().map(String::as_str)),
        (17, Some("1.20"))
    );
}

#[test]
fn new_run_keeps_the_owner_and_fences_the_old_run() {
    let spark = Spark::new();
    let (a, b) = (Host::on_a_cluster(), Host::on_a_cluster());
    first_epoch(&spark, a.connect());
    let before = spark.owners(0);
    spark.begin(1);
    let done = TaskRequest::new(&spark, "b", 1)
        .run(b.connect(), &[left("EUR", 10, 1)])
        .unwrap();
    assert_eq!(done.rows, [matched(1, 100, 10)]);
    assert_eq!(spark.owners(0), [("2.1".to_owned(), before[0].1.clone())]);
    let stale = refused(
        TaskRequest::new(&spark, "a", 1)
            .attempt(2)
            .run(b.connect(), &[left("EUR", 10, 1)]),
    );
    assert_eq!(stale.kind(), ErrorKind::Fenced);
    assert_eq!(terms(&spark), ["2.1"]);
}

#[test]
fn new_application_does_not_use_another_applications_host() {
    let spark = Spark::new();
    let (a, b) = (Host::on_a_cluster(), Host::on_a_cluster());
    let task = |run: &str, epoch: i64, application: &str| {
        let mut task = TaskRequest::new(&spark, run, epoch);
        task.request["application"] = application.into();
        task
    };
    spark.begin(0);
    task("a", 0, "app-1")
        .run(a.connect(), &[right("EUR", 10, 100)])
        .unwrap();
    spark.commit(0);
    let before = spark.owners(0);
    spark.begin(1);
    let done = task("b", 1, "app-2")
        .run(b.connect(), &[left("EUR", 10, 1)])
        .unwrap();
    assert_eq!(done.rows, [matched(1, 100, 10)]);
    let owners = spark.owners(0);
    assert_eq!(owners[0].0, "2.1");
    assert_ne!(
        owners[0].1, before[0].1,
        "that one ends with its application"
    );
}

#[test]
fn other_host_at_the_owners_address_is_not_the_owner() {
    let (spark, other) = (Spark::new(), Spark::new());
    let (a, b, c) = (
        Host::on_a_cluster(),
        Host::on_a_cluster(),
        Host::on_a_cluster(),
    );
    first_epoch(&spark, a.connect());
    first_epoch(&other, c.connect());
    // The writers of both roots have the secret of one driver.
    let claim = |root: &Spark| {
        fs::read_dir(root.path().join("owners/join/0"))
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path()
    };
    let text = fs::read_to_string(claim(&other)).unwrap();
    fs::write(
        claim(&spark),
        text.replace(r#""host":""#, r#""host":"before-"#),
    )
    .unwrap();
    spark.begin(1);
    let done = TaskRequest::new(&spark, "a", 1)
        .run(impatient(&b), &[left("EUR", 10, 1)])
        .unwrap();
    assert_eq!(done.rows, [matched(1, 100, 10)]);
    assert_eq!(terms(&spark), ["1.1", "1.2"]);
}

/// The file of the one claim of partition 0.
pub fn only_claim(spark: &Spark) -> PathBuf {
    let mut claims = fs::read_dir(spark.path().join("owners/join/0")).unwrap();
    claims.next().unwrap().unwrap().path()
}

/// A network that breaks the first connection to a host; returns its address.
fn breaks_one_connection(endpoint: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        drop(listener.accept().unwrap());
        while let Ok((near, _)) = listener.accept() {
            let far = TcpStream::connect(&endpoint).unwrap();
            for (mut from, mut to) in [
                (near.try_clone().unwrap(), far.try_clone().unwrap()),
                (far, near),
            ] {
                thread::spawn(move || {
                    // An end of either stream ends the other one.
                    let copied = io::copy(&mut from, &mut to);
                    (copied.is_ok(), to.shutdown(Shutdown::Both).is_ok())
                });
            }
        }
    });
    address
}

#[test]
fn one_failed_connection_does_not_move_a_partition() {
    let spark = Spark::new();
    let (a, b) = (Host::on_a_cluster(), Host::on_a_cluster());
    first_epoch(&spark, a.connect());
    let claim = only_claim(&spark);
    let (text, endpoint) = (
        fs::read_to_string(&claim).unwrap(),
        spark.owners(0)[0].1.clone(),
    );
    let broken = breaks_one_connection(endpoint.clone());
    fs::write(&claim, text.replace(&endpoint, &broken)).unwrap();
    spark.begin(1);
    let done = TaskRequest::new(&spark, "a", 1)
        .run(b.connect(), &[left("EUR", 10, 1)])
        .unwrap();
    assert_eq!(done.rows, [matched(1, 100, 10)]);
    assert_eq!(terms(&spark), ["1.1"], "it has not moved");
}
