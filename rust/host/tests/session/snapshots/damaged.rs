//! Snapshots that are damaged or of another state.

use std::cell::Cell;
use std::fs;
use std::path::PathBuf;

use holdfast_core::ErrorKind;

use super::{HOUR, epoch_of, every, files, log, manifests, rows, run, run_until_forgotten, task};
use crate::support::{Host, HostProcess, Row, Spark, damage_tables, left, matched, refused, right};

#[test]
fn a_damaged_snapshot_falls_back_to_the_one_before_and_then_says_what_is_lost() {
    let (spark, host) = (Spark::new(), Host::start());
    let mut next = run_until_forgotten(&spark, &host, 0, 5);
    host.stop();
    let damage = |manifest: &PathBuf| fs::write(manifest, "{").unwrap();
    let kept = manifests(&spark);
    damage(kept.last().unwrap());
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
    for part in ["partition 0", "is gone", "snapshot of epoch", "backup"] {
        assert!(
            error.to_string().contains(part),
            "{part:?} is not in {error}"
        );
    }
}

#[test]
fn a_file_that_is_cut_or_has_another_byte_is_noticed() {
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
        assert!(error.to_string().contains("another digest"), "{error}");
    }
}

#[test]
fn a_snapshot_of_another_state_than_the_decided_one_is_passed_over() {
    // Under a name that no log object has, and with the files of another epoch.
    for (is_renamed, said) in [
        (true, "another state than the one that was decided"),
        (false, "another state than its name says"),
    ] {
        let (spark, host) = (Spark::new(), Host::start());
        let next = run_until_forgotten(&spark, &host, 0, 5);
        host.stop();
        let kept = manifests(&spark);
        let [older, newest] = kept.as_slice() else {
            panic!("two are kept: {kept:?}")
        };
        if is_renamed {
            fs::rename(
                newest,
                newest.with_file_name(format!("{:020}.{:032x}", epoch_of(newest), 7)),
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
fn a_damaged_snapshot_counts_no_more_and_the_next_one_is_taken_at_once() {
    let (spark, host) = (Spark::new(), Host::start());
    let next = run_until_forgotten(&spark, &host, 0, 5);
    host.stop();
    let (kept, first) = (manifests(&spark), log(&spark)[0]);
    let [good, damaged] = kept.as_slice() else {
        panic!("{kept:?}")
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
    assert!(!damaged.exists(), "a restore has found it to be of no use");
    spark.run_epochs_until(next + 1, || manifests(&spark).len() == 2, run);
    assert_eq!(manifests(&spark)[0], *good);
    assert_eq!(
        log(&spark)[0],
        first,
        "the log behind the one good snapshot stays"
    );
}

#[test]
fn a_snapshot_of_a_database_that_was_damaged_on_the_disk_is_the_last_one_to_be_taken() {
    // The host that took it knows that it has the damage; the next one finds out.
    for refused_attempts in [1, 2] {
        // RocksDB may merge the file by itself and find the damage, where a view was alive when the
        // file was written.
        assert!(
            (0..5).any(|_| damaged_on_the_disk(refused_attempts)),
            "the damage was found at once each time"
        );
    }
}

/// False if the damage was found before the snapshot that has it was taken.
fn damaged_on_the_disk(refused_attempts: i64) -> bool {
    let spark = Spark::new();
    let hour = |host: &HostProcess, epoch: i64, rows: &[Row]| {
        every(&spark, epoch, HOUR).run(host.connect(), rows)
    };
    // Without rows, so that nothing reads or merges the file with the damage.
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
    // Nobody reads the block, and the files of the next snapshot have it.
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
    let kept = manifests(&spark);
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
        (restored(&kept[0]), restored(&kept[1])),
        (true, refused_attempts == 2),
        "{}",
        host.log()
    );
    // The hour is not over: a good one comes at once, and is the second good one.
    let is_replaced = || !kept[1].exists() && manifests(&spark).len() == 2;
    next = spark.run_epochs_until(next + 1, is_replaced, |epoch| empty(&host, epoch));
    assert!(kept[0].exists());
    host.kill();
    spark.delete_local();
    host = HostProcess::start();
    let done = spark.epoch(next, || hour(&host, next, &rows).unwrap());
    assert_eq!(done.rows, [matched(1, 100, 10)]);
    true
}
