//! A full disk: the error names operator, partition, path and remedy. Nothing is lost, and the
//! query continues once there is space.
//!
//! A limit on the size of files stands for the full disk. It refuses the same writes, and it can be
//! set and lifted for a running host.

use std::collections::BTreeSet;
use std::fs;
use std::time::Instant;

use holdfast_core::{Error, ErrorKind};
use serde_json::json;

use crate::support::{
    HostProcess, PATIENCE, Row, Spark, TaskRequest, left, matched, refused, right,
};

/// Larger than a claim or a manifest, smaller than the rows of an epoch.
const FULL: u64 = 16 << 10;

fn task(spark: &Spark, epoch: i64) -> TaskRequest {
    let settings = json!({"uncommitted_max_bytes": -1, "memory": 1 << 28, "snapshot_interval": 0,
        "retain_epochs": 3});
    TaskRequest::new(spark, "a", epoch).with("/settings", settings)
}

/// Rates of `count` keys.
fn rates(count: i64, time: i64) -> Vec<Row> {
    (0..count)
        .map(|n| {
            right(
                &format!(
                    "{:016x}",
                    n.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64.cast_signed())
                ),
                time,
                n,
            )
        })
        .collect()
}

fn rate_of(row: &Row) -> (String, i64) {
    let Row::Right { key, rate, .. } = row else {
        unreachable!("all are right rows")
    };
    (key.clone().unwrap(), *rate)
}

/// A stream row that matches the n-th rate.
fn probe(rates: &[Row], n: usize) -> Row {
    let (key, rate) = rate_of(&rates[n]);
    left(&key, 100, rate)
}

fn says_all(error: &Error, places: &[&str]) {
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    let text = error.to_string();
    for part in [
        "operator join, partition 0",
        "ree space",
        "nothing that was committed is lost",
    ]
    .iter()
    .chain(places)
    {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

#[test]
fn retry_stages_an_epoch_after_a_full_disk() {
    if !Spark::is_local() {
        return;
    }
    let (spark, host) = (Spark::new(), HostProcess::start());
    let rates = rates(5_000, 10);
    spark.epoch(0, || {
        task(&spark, 0)
            .run(host.connect(), &[right("before", 10, 7)])
            .unwrap()
    });
    spark.begin(1);
    host.limit_files(Some(FULL));
    let error = refused(task(&spark, 1).run(host.connect(), &rates));
    says_all(
        &error,
        &[&spark.path().join("log").to_string_lossy(), "join.0.1"],
    );
    assert_eq!(spark.objects(1), [""; 0], "not even a part");
    host.limit_files(None);
    task(&spark, 1)
        .attempt(2)
        .run(host.connect(), &rates)
        .unwrap();
    spark.commit(1);
    spark.begin(2);
    let done = task(&spark, 2)
        .run(
            host.connect(),
            &[probe(&rates, 4_321), left("before", 100, 1)],
        )
        .unwrap();
    assert_eq!(
        done.rows.iter().collect::<BTreeSet<_>>(),
        BTreeSet::from([&matched(4_321, 4_321, 10), &matched(1, 7, 10)])
    );
}

#[test]
fn retry_commits_after_a_full_disk_and_snapshots_continue() {
    let (spark, host) = (Spark::new(), HostProcess::start());
    let rates = rates(20_000, 10);
    spark.epoch(0, || task(&spark, 0).run(host.connect(), &rates).unwrap());
    // The first snapshot cannot flush committed rows; from then on RocksDB refuses commits.
    host.limit_files(Some(FULL));
    let (started, mut next) = (Instant::now(), 1);
    let error = loop {
        assert!(started.elapsed() < PATIENCE, "nothing was refused");
        spark.begin(next);
        match task(&spark, next).run(host.connect(), &[right("more", next, next)]) {
            Ok(_) => spark.commit(next),
            Err(error) => break error,
        }
        next += 1;
    };
    says_all(&error, &[&spark.path().join("state").to_string_lossy()]);
    host.limit_files(None);
    let done = task(&spark, next)
        .attempt(2)
        .run(
            host.connect(),
            &[probe(&rates, 12_345), left("more", 100, 1)],
        )
        .unwrap();
    assert_eq!(
        done.rows.iter().collect::<BTreeSet<_>>(),
        BTreeSet::from([
            &matched(12_345, 12_345, 10),
            &matched(1, next - 1, next - 1)
        ])
    );
    spark.commit(next);
    // Snapshots are taken again.
    let snapshots = spark.path().join("snapshots/join/0");
    let has_snapshot = || {
        fs::read_dir(&snapshots)
            .is_ok_and(|mut files| files.any(|file| !file.unwrap().path().is_dir()))
    };
    spark.run_epochs_until(next + 1, has_snapshot, |epoch| {
        drop(task(&spark, epoch).run(host.connect(), &[]).unwrap())
    });
}

#[test]
fn retry_restores_a_snapshot_after_a_full_disk() {
    let (spark, host) = (Spark::new(), HostProcess::start());
    let rates = rates(20_000, 10);
    spark.epoch(0, || task(&spark, 0).run(host.connect(), &rates).unwrap());
    let log_is_cut = || !spark.path().join(format!("log/{:020}", 0)).exists();
    let next = spark.run_epochs_until(1, log_is_cut, |epoch| {
        drop(task(&spark, epoch).run(host.connect(), &[]).unwrap())
    });
    host.kill();
    spark.delete_local();
    let host = HostProcess::start();
    host.limit_files(Some(FULL));
    spark.begin(next);
    for attempt in 1..4 {
        let error = refused(
            task(&spark, next)
                .attempt(attempt)
                .run(host.connect(), &[probe(&rates, 12_345)]),
        );
        says_all(&error, &[&spark.local(0).to_string_lossy(), ".restore/"]);
    }
    let left: Vec<_> = fs::read_dir(spark.local(0))
        .unwrap()
        .flatten()
        .map(|file| file.path())
        .filter(|path| path.is_dir())
        .collect();
    assert!(left.is_empty(), "the full disk still has {left:?}");
    host.limit_files(None);
    let done = task(&spark, next)
        .attempt(4)
        .run(host.connect(), &[probe(&rates, 12_345)])
        .unwrap();
    assert_eq!(done.rows, [matched(12_345, 12_345, 10)]);
}
