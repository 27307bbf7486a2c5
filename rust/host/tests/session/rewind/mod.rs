//! Epochs removed by `holdfast rewind` and `holdfast epoch drop`.

mod commands;
mod new_operators;
mod older_checkpoint;

use std::fs;

use crate::support::{Host, Row, Spark, TaskRequest, TaskResult, left, right};

/// The address of the root, as a user gives it.
pub fn address(spark: &Spark) -> String {
    TaskRequest::new(spark, "any", 0).request["root"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// A rate and a row that joins it. `rate` shows which version of the code computed the epoch.
pub fn rows(epoch: i64, rate: i64) -> Vec<Row> {
    vec![
        right("EUR", epoch * 10, rate),
        left("EUR", epoch * 10 + 5, epoch),
    ]
}

pub fn run(spark: &Spark, host: &Host, run: &str, epoch: i64, rows: &[Row]) -> TaskResult {
    spark.epoch(epoch, || {
        TaskRequest::new(spark, run, epoch)
            .run(host.connect(), rows)
            .unwrap()
    })
}

pub fn files(spark: &Spark, folder: &str) -> Vec<String> {
    let Ok(files) = fs::read_dir(spark.path().join(folder)) else {
        return Vec::new();
    };
    let mut names: Vec<String> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A task of an operator of this name.
pub fn named(spark: &Spark, name: &str, run: &str, epoch: i64) -> TaskRequest {
    TaskRequest::new(spark, run, epoch)
        .with("/operator/name", name)
        .with("/instance", format!("{run} {name}"))
}
