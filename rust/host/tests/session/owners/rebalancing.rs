//! Partitions that move between live hosts.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::slice::from_ref;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::IMPATIENT;
use crate::support::{Host, HostProcess, Spark, TOKEN, TaskRequest, left, matched, right};
use holdfast_host::client::Client;

const PARTITIONS: i32 = 4;

/// Runs the tasks of an epoch on the hosts at these sockets, in turns. Each task stores a rate, and
/// joins the rate of the epoch before.
fn run_epoch(spark: &Spark, sockets: &[PathBuf], epoch: i64) {
    for partition in 0..PARTITIONS {
        let turn = usize::try_from(epoch + i64::from(partition)).unwrap() % sockets.len();
        let client = Client::connect(&sockets[turn], TOKEN, IMPATIENT).unwrap();
        let rate = |epoch: i64| 1_000 * i64::from(partition) + epoch;
        let rows = [
            right("EUR", 10 * epoch, rate(epoch)),
            left("EUR", 10 * epoch - 1, epoch),
        ];
        let done = TaskRequest::new(spark, "a", epoch)
            .partition(partition, u32::try_from(PARTITIONS).unwrap())
            .run(client, &rows)
            .unwrap();
        if epoch > 0 {
            let expected = matched(epoch, rate(epoch - 1), 10 * (epoch - 1));
            assert_eq!(done.rows, [expected], "partition {partition}");
        }
    }
}

/// How many partitions each host owns, by its address.
fn loads(spark: &Spark) -> BTreeMap<String, usize> {
    let mut loads = BTreeMap::new();
    for partition in 0..PARTITIONS {
        let (_, endpoint) = spark.owners(partition).pop().unwrap();
        *loads.entry(endpoint).or_default() += 1;
    }
    loads
}

#[test]
fn host_that_joins_gets_its_share() {
    let spark = Spark::new();
    let (a, b) = (Host::on_a_cluster(), Host::on_a_cluster());
    for epoch in 0..3 {
        spark.epoch(epoch, || run_epoch(&spark, from_ref(&a.socket), epoch));
    }
    assert_eq!(loads(&spark).into_values().collect::<Vec<_>>(), [4]);
    let both = [a.socket.clone(), b.socket.clone()];
    let is_equal = || loads(&spark).into_values().eq([2, 2]);
    let next = spark.run_epochs_until(3, is_equal, |epoch| run_epoch(&spark, &both, epoch));
    // Nothing moves any more.
    let owners = || (0..PARTITIONS).map(|partition| spark.owners(partition));
    let before: Vec<_> = owners().collect();
    for epoch in next..next + 10 {
        spark.epoch(epoch, || run_epoch(&spark, &both, epoch));
    }
    assert_eq!(owners().collect::<Vec<_>>(), before);
}

#[test]
fn partition_stays_with_its_owner_until_the_next_one_has_restored_it() {
    let spark = Spark::new();
    if !Spark::is_local() {
        return;
    }
    let (a, b) = (Host::on_a_cluster(), Host::on_a_cluster());
    for epoch in 0..2 {
        spark.epoch(epoch, || run_epoch(&spark, from_ref(&a.socket), epoch));
    }
    let before: Vec<_> = (0..PARTITIONS)
        .map(|partition| spark.owners(partition))
        .collect();
    // A restore waits for the first epoch, which the partition's owner does not read again.
    for partition in 0..PARTITIONS {
        let object = spark
            .path()
            .join(format!("log/{:020}/join.{partition}.1", 0));
        fs::remove_file(&object).unwrap();
        mknodat(CWD, &object, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    }
    let both = [a.socket.clone(), b.socket.clone()];
    for epoch in 2..14 {
        spark.epoch(epoch, || run_epoch(&spark, &both, epoch));
    }
    let after: Vec<_> = (0..PARTITIONS)
        .map(|partition| spark.owners(partition))
        .collect();
    assert_eq!(before, after);
}

#[test]
fn partitions_of_a_lost_host_spread_over_the_others() {
    let spark = Spark::new();
    let (a, b, c) = (
        HostProcess::on_a_cluster(),
        Host::on_a_cluster(),
        Host::on_a_cluster(),
    );
    for epoch in 0..2 {
        spark.epoch(epoch, || run_epoch(&spark, from_ref(&a.socket), epoch));
    }
    a.kill();
    // All tasks of this epoch run on one of the others.
    spark.epoch(2, || run_epoch(&spark, from_ref(&b.socket), 2));
    let both = [b.socket.clone(), c.socket.clone()];
    let is_equal = || loads(&spark).into_values().eq([2, 2]);
    spark.run_epochs_until(3, is_equal, |epoch| run_epoch(&spark, &both, epoch));
}
