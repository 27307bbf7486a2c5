//! Several hosts on one root, as on a cluster: which of them serves a partition, and what becomes
//! of one that was away.

use std::fs::{self, TryLockError};
use std::time::Duration;

use holdfast_core::ErrorKind;
use holdfast_host::client::Client;

use serde_json::json;

use crate::support::{
    Database, Host, HostProcess, Row, Spark, TOKEN, left, matched, refused, right,
};

/// How long these tests wait for a host that is stopped.
const IMPATIENT: Duration = Duration::from_millis(1_500);

/// A connection to a host that gives others up soon.
fn connect(host: &HostProcess) -> Client {
    Client::connect(&host.socket, TOKEN, IMPATIENT).unwrap()
}

/// Epoch 0, computed by a task on this host's executor: one rate.
fn first_epoch(spark: &Spark, client: Client) {
    spark.begin(0);
    Database::new(spark, "a", 0)
        .run(client, &[right("EUR", 10, 100)])
        .unwrap();
    spark.commit(0);
}

/// Whether no host holds the first local directory of partition 0 any more.
fn first_directory_is_free(spark: &Spark) -> bool {
    let files = fs::read_dir(spark.local(0))
        .unwrap()
        .map(|file| file.unwrap().path());
    let lock = files
        .into_iter()
        .find(|path| path.to_string_lossy().ends_with(".0.lock"))
        .expect("a lock");
    match fs::File::open(lock).unwrap().try_lock() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock) => false,
        Err(TryLockError::Error(error)) => panic!("{error}"),
    }
}

fn terms(spark: &Spark) -> Vec<String> {
    spark.owners(0).into_iter().map(|(term, _)| term).collect()
}

#[test]
fn a_task_elsewhere_is_served_by_the_owner() {
    let spark = Spark::new();
    let (a, b) = (Host::on_a_cluster(), Host::on_a_cluster());
    first_epoch(&spark, a.connect());
    spark.begin(1);
    let done = Database::new(&spark, "a", 1)
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
fn two_hosts_that_are_asked_at_once_agree_on_one() {
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
                let db = Database::new(spark, "a", epoch).attempt(attempt as i64);
                scope.spawn(move || {
                    db.run(host.connect(), &[right("EUR", epoch, epoch)])
                        .unwrap()
                });
            }
        });
        assert_eq!(terms(spark), ["1.1"]);
        spark.commit(epoch);
    }
}

#[test]
fn a_twin_on_another_executor_adopts_what_the_first_one_staged() {
    let spark = Spark::new();
    let (a, b) = (Host::on_a_cluster(), Host::on_a_cluster());
    spark.begin(0);
    let rows = [right("EUR", 10, 100), left("EUR", 10, 1)];
    let slow = Database::new(&spark, "a", 0)
        .pushed(a.connect(), &rows)
        .unwrap();
    let twin = Database::new(&spark, "a", 0)
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
fn a_host_killed_while_it_holds_a_committed_epoch_prepared_is_replaced() {
    let spark = Spark::new();
    let (a, b) = (HostProcess::on_a_cluster(), Host::on_a_cluster());
    first_epoch(&spark, a.connect());
    a.kill();
    spark.begin(1);
    let done = Database::new(&spark, "a", 1)
        .run(b.connect(), &[left("EUR", 10, 1)])
        .unwrap();
    assert_eq!(done.rows, [matched(1, 100, 10)]);
    assert_eq!(terms(&spark), ["1.1", "1.2"]);
}

#[test]
fn a_stopped_host_that_wakes_after_its_partition_moved_lets_go_of_it() {
    let spark = Spark::new();
    let (a, b) = (HostProcess::on_a_cluster(), HostProcess::on_a_cluster());
    first_epoch(&spark, connect(&a));
    // Epoch 1 is at work in the first host when that falls asleep.
    spark.begin(1);
    let rows = [right("EUR", 20, 200), left("EUR", 25, 1)];
    let asleep = Database::new(&spark, "a", 1)
        .pushed(connect(&a), &rows)
        .unwrap();
    a.stop();
    let done = Database::new(&spark, "a", 1)
        .attempt(2)
        .run(connect(&b), &rows)
        .unwrap();
    assert_eq!(
        (done.rows.as_slice(), done.staged.adopted),
        ([matched(1, 200, 20)].as_slice(), false)
    );
    assert_eq!(terms(&spark), ["1.1", "1.2"]);
    // It wakes and goes on with what it had: the log has that already.
    a.wake();
    let mut late = asleep.finish().unwrap();
    assert_eq!(
        late.by_ref()
            .map(|batch| batch.unwrap().num_rows())
            .sum::<usize>(),
        1
    );
    assert!(late.staged().unwrap().contains(r#""adopted":true"#));
    spark.commit(1);
    assert!(!first_directory_is_free(&spark));
    // A task of its own executor: the partition is elsewhere now, and it closes what it had of it.
    spark.begin(2);
    let done = Database::new(&spark, "a", 2)
        .run(connect(&a), &[left("EUR", 99, 3)])
        .unwrap();
    assert_eq!(done.rows, [matched(3, 200, 20)]);
    assert_eq!(
        terms(&spark),
        ["1.1", "1.2"],
        "being back is no reason to move again"
    );
    assert!(first_directory_is_free(&spark));
}

#[test]
fn a_worker_does_not_wait_for_a_host_that_was_stopped_in_mid_session() {
    let spark = Spark::new();
    let a = HostProcess::on_a_cluster();
    spark.begin(0);
    let client = Database::new(&spark, "a", 0)
        .pushed(connect(&a), &[right("EUR", 10, 100)])
        .unwrap();
    a.stop();
    let error = match client.finish() {
        Err(error) => error,
        Ok(mut output) => output
            .find_map(Result::err)
            .expect("no answer, no acknowledgement"),
    };
    assert_eq!(error.kind(), ErrorKind::InvalidState);
    assert!(
        error.to_string().contains("keeps silent")
            && error.to_string().contains("retries the task"),
        "{error}"
    );
    a.wake();
}

#[test]
fn a_host_that_was_away_gets_its_partition_back_when_the_next_owner_dies() {
    let spark = Spark::new();
    let (a, b, c) = (
        HostProcess::on_a_cluster(),
        HostProcess::on_a_cluster(),
        HostProcess::on_a_cluster(),
    );
    first_epoch(&spark, connect(&a));
    a.stop();
    spark.begin(1);
    Database::new(&spark, "a", 1)
        .run(connect(&b), &[right("EUR", 20, 200)])
        .unwrap();
    spark.commit(1);
    a.wake();
    b.kill();
    spark.begin(2);
    let done = Database::new(&spark, "a", 2)
        .run(connect(&c), &[left("EUR", 10, 1), left("EUR", 20, 2)])
        .unwrap();
    assert_eq!(done.rows, [matched(1, 100, 10), matched(2, 200, 20)]);
    let owners = spark.owners(0);
    assert_eq!(
        owners
            .iter()
            .map(|(term, _)| term.as_str())
            .collect::<Vec<_>>(),
        ["1.1", "1.2", "1.3"]
    );
    assert_eq!(owners[2].1, owners[0].1, "its copy is the most recent one");
    let log = a.log();
    assert!(
        log.contains("epochs 0 to 1 restored in")
            && log.contains(", 2 records")
            && !log.contains("snapshot"),
        "{log}"
    );
}

#[test]
fn a_host_that_was_away_begins_with_a_snapshot_where_the_log_went_on_without_it() {
    let spark = Spark::new();
    let (a, b, c) = (
        HostProcess::on_a_cluster(),
        HostProcess::on_a_cluster(),
        HostProcess::on_a_cluster(),
    );
    let settings = json!({"uncommitted_max_bytes": -1, "memory": 1 << 28, "snapshot_interval": 0,
        "retain_epochs": 1});
    let run = |client: Client, epoch: i64, rows: &[Row]| {
        Database::new(&spark, "a", epoch)
            .with("/settings", settings.clone())
            .run(client, rows)
            .unwrap()
    };
    // It has checked its database in this run, and keeps it open.
    for epoch in 0..3 {
        spark.epoch(epoch, || {
            run(connect(&a), epoch, &[right("EUR", epoch, epoch)])
        });
    }
    a.stop();
    let is_gone = || !spark.path().join(format!("log/{:020}", 4)).exists();
    // Not before it was there.
    spark.epoch(3, || drop(run(connect(&b), 3, &[right("EUR", 3, 3)])));
    spark.epoch(4, || drop(run(connect(&b), 4, &[right("EUR", 4, 4)])));
    let next = spark.run_epochs_until(5, is_gone, |epoch| {
        drop(run(connect(&b), epoch, &[right("EUR", epoch, epoch)]))
    });
    a.wake();
    b.kill();
    spark.begin(next);
    let done = run(
        connect(&c),
        next,
        &[left("EUR", 1, 1), left("EUR", next, 2)],
    );
    assert_eq!(
        done.rows,
        [matched(1, 1, 1), matched(2, next - 1, next - 1)]
    );
    let owners = spark.owners(0);
    assert_eq!(
        owners.last().unwrap().1,
        owners[0].1,
        "its copy is the most recent one"
    );
    assert!(a.log().contains("restored the snapshot"), "{}", a.log());
}

#[test]
fn claims_do_not_pile_up() {
    let spark = Spark::new();
    // Micro-batches so far apart that the host has ended each time.
    for epoch in 0..20 {
        spark.begin(epoch);
        Database::new(&spark, "a", epoch)
            .run(
                Host::on_a_cluster().connect(),
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
fn a_new_run_goes_where_the_state_is_warm_and_shuts_the_old_one_out() {
    let spark = Spark::new();
    let (a, b) = (Host::on_a_cluster(), Host::on_a_cluster());
    first_epoch(&spark, a.connect());
    let before = spark.owners(0);
    spark.begin(1);
    let done = Database::new(&spark, "b", 1)
        .run(b.connect(), &[left("EUR", 10, 1)])
        .unwrap();
    assert_eq!(done.rows, [matched(1, 100, 10)]);
    assert_eq!(spark.owners(0), [("2.1".to_owned(), before[0].1.clone())]);
    let stale = refused(
        Database::new(&spark, "a", 1)
            .attempt(2)
            .run(b.connect(), &[left("EUR", 10, 1)]),
    );
    assert_eq!(stale.kind(), ErrorKind::Fenced);
    assert_eq!(terms(&spark), ["2.1"]);
}

#[test]
fn another_applications_host_is_left_alone() {
    let spark = Spark::new();
    let (a, b) = (Host::on_a_cluster(), Host::on_a_cluster());
    let db = |run: &str, epoch: i64, application: &str| {
        let mut db = Database::new(&spark, run, epoch);
        db.request["application"] = application.into();
        db
    };
    spark.begin(0);
    db("a", 0, "app-1")
        .run(a.connect(), &[right("EUR", 10, 100)])
        .unwrap();
    spark.commit(0);
    let before = spark.owners(0);
    spark.begin(1);
    let done = db("b", 1, "app-2")
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
fn another_host_at_the_owners_address_is_not_the_owner() {
    let (spark, other) = (Spark::new(), Spark::new());
    let (a, b, c) = (
        Host::on_a_cluster(),
        Host::on_a_cluster(),
        Host::on_a_cluster(),
    );
    first_epoch(&spark, a.connect());
    first_epoch(&other, c.connect());
    // Its token is the same, as is that of an executor's next host.
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
    let done = Database::new(&spark, "a", 1)
        .run(b.connect(), &[left("EUR", 10, 1)])
        .unwrap();
    assert_eq!(done.rows, [matched(1, 100, 10)]);
    assert_eq!(terms(&spark), ["1.1", "1.2"]);
}

#[test]
fn a_host_that_shows_another_token_is_not_the_owner() {
    let spark = Spark::new();
    let (a, b) = (Host::on_a_cluster(), Host::on_a_cluster());
    first_epoch(&spark, a.connect());
    // What listens at the owner's port may be anybody by now.
    let claim = fs::read_dir(spark.path().join("owners/join/0"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let text = fs::read_to_string(&claim)
        .unwrap()
        .replace(TOKEN, "a token that was");
    fs::write(&claim, text.replace(r#""host":""#, r#""host":"before-"#)).unwrap();
    spark.begin(1);
    let done = Database::new(&spark, "a", 1)
        .run(b.connect(), &[left("EUR", 10, 1)])
        .unwrap();
    assert_eq!(done.rows, [matched(1, 100, 10)]);
    assert_eq!(terms(&spark), ["1.1", "1.2"]);
}
