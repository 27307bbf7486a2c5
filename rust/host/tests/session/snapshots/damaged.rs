//! Snapshots that are damaged or of another state.

use std::cell::Cell;
use std::fs;
use std::path::PathBuf;

use holdfast_core::ErrorKind;

use super::{HOUR, epoch_of, every, files, log, manifests, rows, run, run_until_forgotten, task};
use crate::support::{Host, HostProcess, Row, Spark, damage_tables, left, matched, refused, right};

#[test]
fn damaged_snapshot_falls_back_to_the_previous_one_and_then_fails() {
    let (spark, host) = (Spark::new(), Host::start());
    let mut next = run_until_forgotten(&spark, &host, 0, 5);
    host.stop();
    let damage = |manifest: &PathBuf| fs::write(manifest, "{").unwrap();
    let retained = manifests(&spark);
    damage(retained.last().unwrap());
    spark.delete_local();
    let host = Host::start();
    let done = run(&spark, &host, next, &[left("key-3", 15, 1)]);
    assert_eq!(done.rows, [matched(1, 1_003, 10)]);
    next += 1;
    host.stop();
    spark.delete_local();
    manifests(&spark).iter().for_each(damage);
    let host = Host::start();
    spark.begin(next);
    let error = refused(task(&spark, next).run(host.connect(), &[]));
    assert_eq!(error.kind(), ErrorKind::Restore, "{error}");
    for part in ["partition 0", "was removed", "snapshot of epoch", "backup"] {
        assert!(
            error.to_string().contains(part),
            "{part:?} is not in {error}"
        );
    }
}

#[test]
fn truncated_or_changed_file_is_detected() {
    let (spark, host) = (Spark::new(), Host::start());
    let next = run_until_forgotten(&spark, &host, 0, 5);
    host.stop();
    let damaged = |bytes: &[u8], is_cut: bool| {
        let mut damaged = bytes.to_vec();
        let middle = damaged.len() / 2;
        if is_cut {
            damaged.truncate(middle);
        } else if let Some(byte) = damaged.get_mut(middle) {
            *byte ^= 0xFF;
        }
        damaged
    };
    let whole: Vec<_> = files(&spark)
        .into_iter()
        .map(|file| (fs::read(&file).unwrap(), file))
        .collect();
    spark.begin(next);
    for (attempt, is_cut) in [(1, true), (2, false)] {
        whole
            .iter()
            .for_each(|(bytes, file)| fs::write(file, damaged(bytes, is_cut)).unwrap());
        spark.delete_local();
        let host = Host::start();
        let error = refused(task(&spark, next).attempt(attempt).run(host.connect(), &[]));
        assert_eq!(error.kind(), ErrorKind::Restore, "{error}");
        assert!(
            error.to_string().contains("its length or its digest"),
            "{error}"
        );
    }
}

#[test]
fn snapshot_of_an_undecided_state_is_skipped() {
    // The manifest has a digest that no log object has, or the files of another epoch.
    for (is_renamed, said) in [
        (true, "another state than the one that was decided"),
        (false, "another state than its name says"),
    ] {
        let (spark, host) = (Spark::new(), Host::start());
        let next = run_until_forgotten(&spark, &host, 0, 5);
        host.stop();
        let retained = manifests(&spark);
        let [older, newest] = retained.as_slice() else {
            panic!("two are retained: {retained:?}")
        };
        if is_renamed {
            fs::rename(
                newest,
                newest.with_file_name(format!("{:020}.{:032x}.1.1", epoch_of(newest), 7)),
            )
            .unwrap();
        } else {
            fs::copy(older, newest).unwrap();
        }
        spark.delete_local();
        let host = HostProcess::start();
        spark.begin(next);
        let done = task(&spark, next)
            .run(host.connect(), &[left("key-3", 15, 1)])
            .unwrap();
        assert_eq!(done.rows, [matched(1, 1_003, 10)]);
        let log = host.log();
        assert!(
            log.contains(said)
                && log.contains(&format!(
                    "restored the snapshot of epoch {}",
                    epoch_of(older)
                )),
            "{log}"
        );
    }
}

#[test]
fn damaged_snapshot_is_deleted_and_replaced_at_once() {
    let (spark, host) = (Spark::new(), Host::start());
    let next = run_until_forgotten(&spark, &host, 0, 5);
    host.stop();
    let retained = manifests(&spark);
    let [good, damaged] = retained.as_slice() else {
        panic!("{retained:?}")
    };
    fs::write(damaged, "{").unwrap();
    spark.delete_local();
    let host = Host::start();
    let run = |epoch: i64| {
        drop(
            every(&spark, epoch, HOUR)
                .run(host.connect(), &rows(epoch))
                .unwrap(),
        )
    };
    spark.epoch(next, || run(next));
    assert!(!damaged.exists(), "the restore deletes it");
    spark.run_epochs_until(next + 1, || manifests(&spark).len() == 2, run);
    assert_eq!(manifests(&spark)[0], *good);
    // Hosts remove the log in intervals, so older epochs may remain, too.
    assert!(
        log(&spark)[0] <= epoch_of(good),
        "the log after the one good snapshot remains"
    );
}

#[test]
fn snapshot_of_a_damaged_database_is_replaced() {
    // The host that took the snapshot knows of the damage; the next host has to find it.
    for refused_attempts in [1, 2] {
        // If a view was alive when the file was written, RocksDB may compact the file and find the
        // damage first.
        assert!(
            (0..5).any(|_| snapshot_has_the_damage(refused_attempts)),
            "the damage was found at once each time"
        );
    }
}

/// Returns false if the damage was found before a snapshot contained it.
fn snapshot_has_the_damage(refused_attempts: i64) -> bool {
    let spark = Spark::new();
    let hour = |host: &HostProcess, epoch: i64, rows: &[Row]| {
        every(&spark, epoch, HOUR).run(host.connect(), rows)
    };
    // Epochs without rows: nothing reads or compacts the damaged file.
    let empty = |host: &HostProcess, epoch: i64| drop(hour(host, epoch, &[]).unwrap());
    let mut host = HostProcess::start();
    spark.epoch(0, || hour(&host, 0, &[right("EUR", 10, 100)]).unwrap());
    let next = spark.run_epochs_until(
        1,
        || manifests(&spark).len() == 1,
        |epoch| empty(&host, epoch),
    );
    host.kill();
    assert!(damage_tables(&spark, b"EUR") > 0);
    // The damaged block is not read, and the next snapshot copies it.
    host = HostProcess::start();
    let is_found = Cell::new(false);
    let run = |epoch| match hour(&host, epoch, &[]) {
        Err(error) if error.kind() == ErrorKind::StoreCorrupted => is_found.set(true),
        done => drop(done.unwrap()),
    };
    let mut next =
        spark.run_epochs_until(next, || is_found.get() || manifests(&spark).len() == 2, run);
    if is_found.get() || host.log().contains("is damaged") {
        return false;
    }
    let retained = manifests(&spark);
    if refused_attempts == 2 {
        host.kill();
        host = HostProcess::start();
    }
    spark.begin(next);
    let rows = [left("EUR", 10, 1)];
    for attempt in 1..=refused_attempts {
        let Err(error) = every(&spark, next, HOUR)
            .attempt(attempt)
            .run(host.connect(), &rows)
        else {
            return false;
        };
        assert_eq!(
            error.kind(),
            ErrorKind::StoreCorrupted,
            "attempt {attempt}: {error}"
        );
    }
    let done = every(&spark, next, HOUR)
        .attempt(refused_attempts + 1)
        .run(host.connect(), &rows)
        .unwrap();
    assert_eq!(done.rows, [matched(1, 100, 10)]);
    spark.commit(next);
    let restored = |manifest: &PathBuf| {
        host.log().contains(&format!(
            "restored the snapshot of epoch {}",
            epoch_of(manifest)
        ))
    };
    assert_eq!(
        (restored(&retained[0]), restored(&retained[1])),
        (true, refused_attempts == 2),
        "{}",
        host.log()
    );
    // A good snapshot is taken before the interval is over, and is the second good one.
    let is_replaced = || !retained[1].exists() && manifests(&spark).len() == 2;
    next = spark.run_epochs_until(next + 1, is_replaced, |epoch| empty(&host, epoch));
    assert!(retained[0].exists());
    host.kill();
    spark.delete_local();
    host = HostProcess::start();
    let done = spark.epoch(next, || hour(&host, next, &rows).unwrap());
    assert_eq!(done.rows, [matched(1, 100, 10)]);
    true
}
