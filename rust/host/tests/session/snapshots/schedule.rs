//! When snapshots are taken and restored, and what they copy.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Instant;

use holdfast_host::net::metrics::DatabaseAccess;
use serde_json::json;

use super::{
    HOUR, RETAINED, epoch_of, every, log, manifests, rows, run, run_until_forgotten, task,
};
use crate::readers;
use crate::support::{
    Host, HostProcess, PATIENCE, Row, Spark, TaskRequest, left, matched, refused, right, wait_until,
};

#[test]
fn log_stays_short_and_a_new_disk_restores_a_snapshot() {
    let (spark, host) = (Spark::new(), Host::start());
    let next = run_until_forgotten(&spark, &host, 0, 20);
    let newest = *log(&spark).last().unwrap();
    assert_eq!(newest, next - 1);
    assert!(log(&spark).len() >= RETAINED, "{:?}", log(&spark));
    host.stop();
    spark.delete_local();
    let host = Host::start();
    // Rates of epochs whose log was removed are restored, too.
    let asked: Vec<Row> = (0..next)
        .map(|epoch| left("key-9", epoch * 10 + 5, epoch))
        .collect();
    let done = run(&spark, &host, next, &asked);
    assert_eq!(
        done.rows,
        (0..next)
            .map(|epoch| matched(epoch, epoch * 1_000 + 9, epoch * 10))
            .collect::<Vec<_>>()
    );
}

/// No operator runs in the epoch before each session, so each snapshot is of a skipped epoch.
#[test]
fn log_stays_short_after_snapshots_of_skipped_epochs() {
    let (spark, host) = (Spark::new(), Host::start());
    let is_short = || log(&spark).first().is_some_and(|first| *first >= 10);
    let next = spark.run_epochs_until(0, is_short, |epoch| {
        if epoch % 2 == 0 {
            let done = task(&spark, epoch).run(host.connect(), &rows(epoch));
            drop(done.unwrap());
        }
    });
    host.stop();
    spark.delete_local();
    let host = Host::start();
    let asked: Vec<Row> = (0..next)
        .step_by(2)
        .map(|epoch| left("key-9", epoch * 10 + 5, epoch))
        .collect();
    let done = run(&spark, &host, next, &asked);
    let rates = (0..next).step_by(2);
    assert_eq!(
        done.rows,
        Vec::from_iter(rates.map(|epoch| matched(epoch, epoch * 1_000 + 9, epoch * 10)))
    );
}

#[test]
fn old_local_database_is_replaced_by_a_snapshot() {
    let (spark, host) = (Spark::new(), Host::start());
    run(&spark, &host, 0, &rows(0));
    run(&spark, &host, 1, &rows(1));
    host.stop();
    // The host's database remains on its disk while another machine continues.
    let (here, away) = (spark.path().join("state"), spark.path().join("away"));
    fs::rename(&here, &away).unwrap();
    let host = Host::start();
    let next = run_until_forgotten(&spark, &host, 2, 12);
    host.stop();
    fs::remove_dir_all(&here).unwrap();
    fs::rename(&away, &here).unwrap();
    let host = Host::start();
    let done = run(
        &spark,
        &host,
        next,
        &[left("key-3", 5, 1), left("key-3", 95, 2)],
    );
    assert_eq!(done.rows, [matched(1, 3, 0), matched(2, 9_003, 90)]);
}

/// The epochs and records of the log that a host has replayed, and whether it has restored a
/// snapshot.
fn restored(host: &HostProcess) -> (Vec<(i64, i64, i64)>, bool) {
    let log = host.log();
    let replayed = log.lines().filter_map(|line| {
        let (epochs, records) = line.split_once(" epochs ")?.1.split_once(" restored in ")?;
        let (from, to) = epochs.split_once(" to ")?;
        let records = records.split_once(", ")?.1.strip_suffix(" records")?;
        Some((
            from.parse().unwrap(),
            to.parse().unwrap(),
            records.parse().unwrap(),
        ))
    });
    (replayed.collect(), log.contains("restored the snapshot"))
}

#[test]
fn returning_machine_replays_only_what_it_missed() {
    let spark = Spark::new();
    let run = |host: &HostProcess, disk: &str, epoch: i64| {
        let settings = json!({"uncommitted_max_bytes": -1, "memory": 1 << 28,
            "snapshot_interval": 0, "retain_epochs": 1_000});
        let disk = spark.path().join(disk);
        let task = TaskRequest::new(&spark, "a", epoch)
            .with("/settings", settings)
            .with("/local_dir", disk.to_str().unwrap());
        task.run(host.connect(), &rows(epoch)).unwrap();
    };
    let host = HostProcess::start();
    let away = spark.run_epochs_until(
        0,
        || !manifests(&spark).is_empty(),
        |epoch| run(&host, "one", epoch),
    );
    let snapshot = manifests(&spark)
        .iter()
        .map(|manifest| epoch_of(manifest))
        .min()
        .unwrap();
    host.kill();
    // Another machine serves the partition for a while and takes newer snapshots.
    let host = HostProcess::start();
    (away..away + 3).for_each(|epoch| spark.epoch(epoch, || run(&host, "two", epoch)));
    let is_newer = || {
        manifests(&spark)
            .iter()
            .any(|manifest| epoch_of(manifest) > away)
    };
    let next = spark.run_epochs_until(away + 3, is_newer, |epoch| run(&host, "two", epoch));
    assert!(restored(&host).1, "a new disk: {}", host.log());
    host.kill();
    let host = HostProcess::start();
    spark.epoch(next, || run(&host, "one", next));
    let (replayed, from_snapshot) = restored(&host);
    assert!(
        !from_snapshot,
        "the local disk has most epochs: {}",
        host.log()
    );
    let &[(from, to, records)] = replayed.as_slice() else {
        panic!("replayed once: {}", host.log())
    };
    assert_eq!(
        (to, records),
        (next - 1, (to - from + 1) * 200),
        "{}",
        host.log()
    );
    assert!(
        from > snapshot,
        "epochs on the local disk are not replayed: {}",
        host.log()
    );
}

#[test]
fn short_lived_hosts_take_snapshots() {
    let spark = Spark::new();
    for start in 0..8 {
        let host = Host::start();
        for epoch in start * 3..start * 3 + 3 {
            spark.epoch(epoch, || {
                every(&spark, epoch, HOUR)
                    .run(host.connect(), &rows(epoch))
                    .unwrap()
            });
        }
        host.stop();
    }
    assert_eq!(manifests(&spark).len(), 2);
    let epochs = log(&spark);
    assert!(epochs[0] > 0 && epochs.len() < 20, "{epochs:?}");
}

#[test]
fn snapshot_is_due_by_the_bytes_of_the_log() {
    let (spark, host) = (Spark::new(), Host::start());
    let run = |epoch: i64, rows: &[Row]| {
        let task = every(&spark, epoch, HOUR).with("/settings/retain_epochs", 100);
        spark.epoch(epoch, || task.run(host.connect(), rows).unwrap());
    };
    (0..5).for_each(|epoch| run(epoch, &rows(epoch)));
    assert_eq!(manifests(&spark).len(), 0, "the log is short");
    let many: Vec<Row> = (0..40_000)
        .map(|n| right(&format!("{n:01000}"), n, n))
        .collect();
    run(5, &many);
    run(6, &[]);
    wait_until(
        || !manifests(&spark).is_empty(),
        || "no snapshot".to_owned(),
    );
}

#[test]
fn short_lived_hosts_on_new_disks_take_snapshots_at_their_end() {
    let spark = Spark::new();
    let mut snapshots = Vec::new();
    for start in 0..3 {
        let host = Host::start();
        for epoch in start * 3..start * 3 + 3 {
            let task = every(&spark, epoch, HOUR).with("/settings/retain_epochs", 100);
            spark.epoch(epoch, || task.run(host.connect(), &rows(epoch)).unwrap());
        }
        host.stop();
        spark.delete_local();
        snapshots.push(manifests(&spark).last().map(|manifest| epoch_of(manifest)));
    }
    // The first host takes none: its disk may last. A later host's snapshot has all epochs but the
    // host's last one.
    assert_eq!(snapshots, [None, Some(4), Some(7)]);
}

#[test]
fn failed_snapshots_are_counted_until_one_is_taken() {
    let spark = Spark::new();
    if !Spark::is_local() {
        return;
    }
    let host = HostProcess::on_a_cluster();
    let compute = |epoch: i64, interval: u64| {
        let task = every(&spark, epoch, interval);
        drop(task.run(host.connect(), &rows(epoch)).unwrap());
    };
    // The host searches for snapshots in the first two epochs, and takes none.
    (0..2).for_each(|epoch| spark.epoch(epoch, || compute(epoch, HOUR)));
    let stream = RefCell::new(readers::reader(&readers::address(&spark)));
    // None if the partition's lock is held: then the host does not know the figure.
    let failures = || {
        let figures = readers::figures(&mut stream.borrow_mut(), &spark);
        let partition = &figures.partitions[0];
        (partition.access == DatabaseAccess::Open).then_some(partition.snapshots.failures)
    };
    wait_until(|| failures() == Some(0), || host.log());
    let obstacle = spark.path().join("snapshots");
    fs::write(&obstacle, "a file where the folder must be").unwrap();
    let next = spark.run_epochs_until(2, || failures() >= Some(1), |epoch| compute(epoch, 0));
    fs::remove_file(obstacle).unwrap();
    let is_taken = || !manifests(&spark).is_empty();
    spark.run_epochs_until(next, is_taken, |epoch| compute(epoch, 0));
    wait_until(|| failures() == Some(0), || host.log());
}

#[test]
fn older_checkpoint_beside_newer_snapshots_is_an_error() {
    for back_to in [0, 2] {
        let (spark, host) = (Spark::new(), Host::start());
        let next = run_until_forgotten(&spark, &host, 0, 5);
        host.stop();
        spark.delete_local();
        spark.restore_checkpoint(back_to, next);
        let (epochs, snapshots) = (log(&spark), manifests(&spark));
        let host = Host::start();
        let error =
            refused(TaskRequest::new(&spark, "b", back_to).run(host.connect(), &rows(back_to)));
        assert!(
            error.to_string().contains("older checkpoint was restored"),
            "{error}"
        );
        assert_eq!((log(&spark), manifests(&spark)), (epochs, snapshots));
    }
}

#[test]
fn only_new_files_are_copied() {
    let (spark, host) = (Spark::new(), Host::start());
    // Enough rows to dominate the files that are specific to each snapshot.
    let many: Vec<Row> = (0..50_000_i64)
        .map(|n| right(&format!("key-{}", n * 7_919 % 50_000), n, n))
        .collect();
    run(&spark, &host, 0, &many);
    let (mut next, mut newest, started) = (1, -1, Instant::now());
    // The bytes of each whole snapshot, and the bytes of each file as often as it was written.
    let (mut whole, mut copied) = (Vec::new(), HashMap::new());
    while whole.len() < 10 {
        assert!(started.elapsed() < PATIENCE, "no snapshot");
        run(&spark, &host, next, &[right("key-1", 60_000 + next, next)]);
        next += 1;
        let Some(manifest) = manifests(&spark)
            .pop()
            .filter(|manifest| epoch_of(manifest) > newest)
        else {
            continue;
        };
        // Two newer snapshots may have replaced it meanwhile.
        let Ok(bytes) = fs::read(&manifest) else {
            continue;
        };
        newest = epoch_of(&manifest);
        let manifest: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        let files = manifest["files"].as_array().unwrap();
        whole.push(
            files
                .iter()
                .map(|file| file["bytes"].as_u64().unwrap())
                .sum::<u64>(),
        );
        for file in files {
            let (digest, bytes) = (
                file["digest"].as_str().unwrap(),
                file["bytes"].as_u64().unwrap(),
            );
            let (run, generation) = (&file["term"]["run"], &file["term"]["generation"]);
            let place = spark.path().join(format!(
                "snapshots/join/0/files/{digest}-{bytes}.{run}.{generation}"
            ));
            // A file that is written again has the same name and another inode.
            if let Ok(file) = fs::metadata(place) {
                copied.insert((file.ino(), file.mtime_nsec()), bytes);
            }
        }
    }
    let (whole, copied): (u64, u64) = (whole.iter().sum(), copied.values().sum());
    assert!(whole > 10_000_000, "{whole}");
    assert!(copied > 1_000_000, "{copied}");
    // Compactions rewrite rows at times.
    assert!(copied < whole / 2, "{copied} of {whole} bytes");
}
