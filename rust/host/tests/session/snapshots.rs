//! Snapshots: what a new disk begins with, and what keeps the log short.

use std::cell::Cell;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Instant;

use holdfast_core::ErrorKind;
use serde_json::json;

use crate::support::{
    Database, Done, Host, HostProcess, PATIENCE, Row, Spark, damage_tables, left, matched, refused,
    right,
};

const RETAINED: usize = 3;

fn db(spark: &Spark, epoch: i64) -> Database {
    every(spark, epoch, 0)
}

/// A task of a host that takes a snapshot every so many microseconds.
fn every(spark: &Spark, epoch: i64, interval: u64) -> Database {
    let settings = json!({"uncommitted_max_bytes": -1, "memory": 1 << 28,
        "snapshot_interval": interval, "retain_epochs": RETAINED});
    Database::new(spark, "a", epoch).with("/settings", settings)
}

const HOUR: u64 = 3_600_000_000;

fn run(spark: &Spark, host: &Host, epoch: i64, rows: &[Row]) -> Done {
    spark.epoch(epoch, || {
        db(spark, epoch).run(host.connect(), rows).unwrap()
    })
}

/// A rate of each epoch's own, and what joins it.
fn rows(epoch: i64) -> Vec<Row> {
    let mut rows: Vec<Row> = (0..200)
        .map(|n| right(&format!("key-{n}"), epoch * 10, epoch * 1_000 + n))
        .collect();
    rows.push(left("key-7", epoch * 10 + 5, epoch));
    rows
}

/// Manifests, oldest first.
fn manifests(spark: &Spark) -> Vec<PathBuf> {
    let Ok(folder) = fs::read_dir(spark.path().join("snapshots/join/0")) else {
        return Vec::new();
    };
    // While a manifest is being written it lies beside its place, under its name with `#1` behind
    // it.
    let whole = |path: &PathBuf| path.is_file() && !path.to_string_lossy().contains('#');
    let mut found: Vec<PathBuf> = folder
        .map(|file| file.unwrap().path())
        .filter(whole)
        .collect();
    found.sort();
    found
}

fn epoch_of(manifest: &std::path::Path) -> i64 {
    manifest
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .split_once('.')
        .unwrap()
        .0
        .parse()
        .unwrap()
}

fn files(spark: &Spark) -> Vec<PathBuf> {
    fs::read_dir(spark.path().join("snapshots/join/0/files"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect()
}

fn log(spark: &Spark) -> Vec<i64> {
    let Ok(folder) = fs::read_dir(spark.path().join("log")) else {
        return Vec::new();
    };
    let mut epochs: Vec<i64> = folder
        .map(|folder| {
            folder
                .unwrap()
                .file_name()
                .to_str()
                .unwrap()
                .parse()
                .unwrap()
        })
        .collect();
    epochs.sort_unstable();
    epochs
}

/// Runs epochs until the log before `epoch` is gone; returns the next one.
fn run_until_forgotten(spark: &Spark, host: &Host, next: i64, epoch: i64) -> i64 {
    let is_forgotten = || log(spark).first().is_some_and(|first| *first >= epoch);
    spark.run_epochs_until(next, is_forgotten, |epoch| {
        drop(db(spark, epoch).run(host.connect(), &rows(epoch)).unwrap())
    })
}

#[test]
fn the_log_stays_short_and_a_new_disk_begins_with_a_snapshot() {
    let (spark, host) = (Spark::new(), Host::start());
    let next = run_until_forgotten(&spark, &host, 0, 20);
    let newest = *log(&spark).last().unwrap();
    assert_eq!(newest, next - 1);
    assert!(log(&spark).len() >= RETAINED, "{:?}", log(&spark));
    host.stop();
    spark.delete_local();
    let host = Host::start();
    // Rates of epochs whose log is gone are there all the same.
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

#[test]
fn a_host_that_was_away_for_long_begins_with_a_snapshot_too() {
    let (spark, host) = (Spark::new(), Host::start());
    run(&spark, &host, 0, &rows(0));
    run(&spark, &host, 1, &rows(1));
    host.stop();
    // Its database stays where it is, while another machine goes on.
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

/// The epochs and records of the log that a host has replayed, and whether it began with a
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
fn a_machine_that_was_away_replays_what_it_missed_and_nothing_else() {
    let spark = Spark::new();
    let run = |host: &HostProcess, disk: &str, epoch: i64| {
        let settings = json!({"uncommitted_max_bytes": -1, "memory": 1 << 28,
            "snapshot_interval": 0, "retain_epochs": 1_000});
        let disk = spark.path().join(disk);
        let db = Database::new(&spark, "a", epoch)
            .with("/settings", settings)
            .with("/local_dir", disk.to_str().unwrap());
        db.run(host.connect(), &rows(epoch)).unwrap();
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
    // Another machine has the partition for a while, and takes newer snapshots.
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
        "its own disk has most of it: {}",
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
        "what it had written to its disk, it has: {}",
        host.log()
    );
}

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
    let error = refused(db(&spark, next).run(host.connect(), &[]));
    assert_eq!(error.kind(), ErrorKind::Restore, "{error}");
    for part in ["partition 0", "was removed", "snapshot of epoch", "backup"] {
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
        let error = refused(db(&spark, next).attempt(attempt).run(host.connect(), &[]));
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
        let done = db(&spark, next)
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

#[test]
fn hosts_that_live_shorter_than_the_interval_take_snapshots_too() {
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
    let kept = log(&spark);
    assert!(kept[0] > 0 && kept.len() < 20, "{kept:?}");
}

#[test]
fn an_older_checkpoint_beside_newer_snapshots_is_an_error() {
    for back_to in [0, 2] {
        let (spark, host) = (Spark::new(), Host::start());
        let next = run_until_forgotten(&spark, &host, 0, 5);
        host.stop();
        spark.delete_local();
        spark.restore_checkpoint(back_to, next);
        let (kept, snapshots) = (log(&spark), manifests(&spark));
        let host = Host::start();
        let error =
            refused(Database::new(&spark, "b", back_to).run(host.connect(), &rows(back_to)));
        assert!(
            error.to_string().contains("older checkpoint was restored"),
            "{error}"
        );
        assert_eq!((log(&spark), manifests(&spark)), (kept, snapshots));
    }
}

#[test]
fn only_new_files_are_copied() {
    let (spark, host) = (Spark::new(), Host::start());
    // So much that it cannot hide behind the files that each snapshot has of its own.
    let many: Vec<Row> = (0..50_000_i64)
        .map(|n| right(&format!("key-{}", n * 7_919 % 50_000), n, n))
        .collect();
    run(&spark, &host, 0, &many);
    let (mut next, mut newest, started) = (1, -1, Instant::now());
    // Bytes of each snapshot by itself; those of the files that all of them are made of, however
    // often each was written.
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
        // Two newer snapshots may have taken its place meanwhile.
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
            let place = spark
                .path()
                .join(format!("snapshots/join/0/files/{digest}-{bytes}"));
            // A file that is put again is another one of the same name.
            if let Ok(file) = fs::metadata(place) {
                copied.insert((file.ino(), file.mtime_nsec()), bytes);
            }
        }
    }
    let (whole, copied): (u64, u64) = (whole.iter().sum(), copied.values().sum());
    assert!(whole > 10_000_000, "{whole}");
    assert!(copied > 1_000_000, "{copied}");
    // Compactions rewrite the rows now and then.
    assert!(copied < whole / 2, "{copied} of {whole} bytes");
}
