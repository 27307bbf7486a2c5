//! Snapshots: hosts with new disks restore them, and they keep the log short.

mod damaged;
mod schedule;

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use crate::support::{Host, Row, Spark, TaskRequest, TaskResult, left, right};

pub const RETAINED: usize = 3;

pub fn task(spark: &Spark, epoch: i64) -> TaskRequest {
    every(spark, epoch, 0)
}

/// A task with a snapshot interval, in microseconds.
pub fn every(spark: &Spark, epoch: i64, interval: u64) -> TaskRequest {
    let settings = json!({"uncommitted_max_bytes": -1, "memory": 1 << 28,
        "snapshot_interval": interval, "retain_epochs": RETAINED});
    TaskRequest::new(spark, "a", epoch).with("/settings", settings)
}

pub const HOUR: u64 = 3_600_000_000;

pub fn run(spark: &Spark, host: &Host, epoch: i64, rows: &[Row]) -> TaskResult {
    spark.epoch(epoch, || {
        task(spark, epoch).run(host.connect(), rows).unwrap()
    })
}

/// 200 rates of the epoch, and a row that joins one of them.
pub fn rows(epoch: i64) -> Vec<Row> {
    let mut rows: Vec<Row> = (0..200)
        .map(|n| right(&format!("key-{n}"), epoch * 10, epoch * 1_000 + n))
        .collect();
    rows.push(left("key-7", epoch * 10 + 5, epoch));
    rows
}

/// The manifests, oldest first.
pub fn manifests(spark: &Spark) -> Vec<PathBuf> {
    let Ok(folder) = fs::read_dir(spark.path().join("snapshots/join/0")) else {
        return Vec::new();
    };
    // A manifest that is being written has the suffix `#1`. A mark, with the suffix `.removal`, is
    // beside a manifest that is being removed.
    let whole = |path: &PathBuf| {
        let name = path.to_string_lossy();
        path.is_file() && !name.contains('#') && !name.ends_with(".removal")
    };
    let mut found: Vec<PathBuf> = folder
        .map(|file| file.unwrap().path())
        .filter(whole)
        .collect();
    found.sort();
    found
}

pub fn epoch_of(manifest: &std::path::Path) -> i64 {
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

pub fn files(spark: &Spark) -> Vec<PathBuf> {
    fs::read_dir(spark.path().join("snapshots/join/0/files"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect()
}

pub fn log(spark: &Spark) -> Vec<i64> {
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

/// Runs epochs until the log before `epoch` is removed; returns the next epoch.
pub fn run_until_forgotten(spark: &Spark, host: &Host, next: i64, epoch: i64) -> i64 {
    let is_forgotten = || log(spark).first().is_some_and(|first| *first >= epoch);
    spark.run_epochs_until(next, is_forgotten, |epoch| {
        drop(
            task(spark, epoch)
                .run(host.connect(), &rows(epoch))
                .unwrap(),
        )
    })
}
