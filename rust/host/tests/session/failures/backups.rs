//! A backup of the root is restored while hosts have the state of the epochs after it.

use holdfast_host::protocol::{Epoch, RunNumber};

use crate::support::{Host, Spark, TaskRequest, left, matched, right};

/// Runs an epoch that stores a rate, and joins the rate of the epoch before.
fn run(spark: &Spark, host: &Host, run: &str, epoch: i64, rate: i64, before: i64) {
    // Runs b, c and d are of one application, so d does not repeat the attempt numbers of c.
    let mut task = TaskRequest::new(spark, run, epoch).attempt(i64::from(run == "d") + 1);
    // A partition does not stay with a host of another application.
    task.request["application"] = (if run == "a" { "first" } else { "second" }).into();
    let rows = [
        right("EUR", 10 * epoch, rate),
        left("EUR", 10 * epoch - 1, epoch),
    ];
    let done = spark.epoch(epoch, || task.run(host.connect(), &rows).unwrap());
    if epoch > 0 {
        let expected = matched(epoch, before, 10 * (epoch - 1));
        assert_eq!(done.rows, [expected], "run {run}, epoch {epoch}");
    }
}

/// Starts the query twice after a backup, restores the backup and rewinds to epoch 2.
fn discard_two_runs(spark: &Spark, host: &Host) {
    let backup = spark.back_up();
    run(spark, host, "b", 2, 1_002, 1);
    run(spark, host, "c", 3, 1_003, 1_002);
    run(spark, host, "c", 4, 1_004, 1_003);
    run(spark, host, "c", 5, 1_005, 1_004);
    spark.restore_backup(&backup);
    let rewound = spark.open_root().rewind(Epoch(2)).unwrap();
    assert_eq!(
        rewound.run,
        RunNumber(2),
        "the next run has the number of c"
    );
}

#[test]
fn host_drops_what_it_knows_of_a_discarded_run_with_the_same_number() {
    let (spark, host) = (Spark::new(), Host::start());
    run(&spark, &host, "a", 0, 0, 0);
    run(&spark, &host, "a", 1, 1, 0);
    discard_two_runs(&spark, &host);
    for epoch in 2..8 {
        run(&spark, &host, "d", epoch, epoch, epoch - 1);
    }
}

#[test]
fn host_that_owned_a_partition_in_a_discarded_run_does_not_continue_from_its_state() {
    let spark = Spark::new();
    let (a, b) = (Host::on_a_cluster(), Host::on_a_cluster());
    run(&spark, &b, "a", 0, 0, 0);
    run(&spark, &b, "a", 1, 1, 0);
    discard_two_runs(&spark, &a);
    // The other host computes the epochs again, up to the one that the first host's database has.
    for epoch in 2..5 {
        run(&spark, &b, "d", epoch, epoch, epoch - 1);
    }
    for epoch in 5..8 {
        run(&spark, &a, "d", epoch, epoch, epoch - 1);
    }
}
