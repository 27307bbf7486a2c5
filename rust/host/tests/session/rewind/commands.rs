//! What the commands remove, and how the query continues.

use std::fs;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_ipc::reader::FileReader;
use holdfast_core::ErrorKind;
use holdfast_host::protocol::{Epoch, RunNumber};
use holdfast_host::root::{Root, StorageOptions};
use serde_json::json;

use super::{address, files, rows, run};
use crate::support::{Host, Spark, TaskRequest, left, matched, refused, right, wait_until};

#[test]
fn rewound_state_continues_with_other_code() {
    for host_lives in [true, false] {
        let (spark, mut host) = (Spark::new(), Host::start());
        for epoch in 0..6 {
            run(&spark, &host, "old", epoch, &rows(epoch, epoch));
        }
        // The staged epoch that is not committed is removed, too.
        spark.begin(6);
        TaskRequest::new(&spark, "old", 6)
            .run(host.connect(), &rows(6, 6))
            .unwrap();
        if !host_lives {
            host.stop();
            host = Host::start();
        }
        let taken = spark.open_root().rewind(Epoch(3)).unwrap();
        assert_eq!(taken.run, RunNumber(2));
        assert_eq!(
            (
                files(&spark, "query/commits"),
                files(&spark, "query/offsets")
            ),
            (numbers(0..3), numbers(0..4))
        );
        assert_eq!(files(&spark, "removed/2/query/offsets"), numbers(4..7));
        assert_eq!(files(&spark, "removed/2/log").len(), 4);
        // A driver that still runs gets an error.
        spark.begin(3);
        let late = TaskRequest::new(&spark, "old", 3).run(host.connect(), &rows(3, 3));
        let text = refused(late).to_string();
        assert!(
            text.contains("`holdfast rewind` ")
                && text.contains("was run meanwhile")
                && !text.contains("two drivers"),
            "{text}"
        );

        let done = run(
            &spark,
            &host,
            "new",
            3,
            &[left("EUR", 45, 45), left("EUR", 25, 25)],
        );
        assert_eq!(done.rows, [matched(25, 2, 20), matched(45, 2, 20)]);
        let done = run(&spark, &host, "new", 4, &rows(4, 400));
        assert_eq!(done.rows, [matched(4, 400, 40)]);
        // A host without local state restores what the new code computed.
        host.stop();
        spark.delete_local();
        let done = run(
            &spark,
            &Host::start(),
            "new",
            5,
            &[left("EUR", 38, 1), left("EUR", 60, 2)],
        );
        assert_eq!(done.rows, [matched(1, 2, 20), matched(2, 400, 40)]);
    }
}

#[test]
fn object_of_a_fenced_host_after_the_rewind_is_ignored() {
    let (spark, host) = (Spark::new(), Host::start());
    for epoch in 0..6 {
        run(&spark, &host, "old", epoch, &rows(epoch, epoch));
    }
    spark.begin(6);
    TaskRequest::new(&spark, "old", 6)
        .run(host.connect(), &rows(6, 6))
        .unwrap();
    spark.open_root().rewind(Epoch(3)).unwrap();
    // The host had checked the claims before the command, put its object after the command listed
    // the folder, and was killed.
    let log = |folder: &str| spark.path().join(format!("{folder}log/{:020}/join.0.1", 6));
    fs::create_dir_all(log("").parent().unwrap()).unwrap();
    fs::copy(log("removed/2/"), log("")).unwrap();
    assert_eq!(spark.open_root().drop_epoch(Epoch(3)).unwrap(), None);
    for epoch in 3..6 {
        let new = run(&spark, &host, "new", epoch, &rows(epoch, 100 + epoch));
        assert_eq!(new.rows, [matched(epoch, 100 + epoch, epoch * 10)]);
    }
}

#[test]
fn object_of_a_fenced_host_after_a_drop_is_ignored() {
    let (spark, host) = (Spark::new(), Host::start());
    run(&spark, &host, "old", 0, &rows(0, 1));
    spark.begin(1);
    let task = |run: &str, epoch| TaskRequest::new(&spark, run, epoch);
    task("old", 1).run(host.connect(), &rows(1, 2)).unwrap();
    spark.open_root().drop_epoch(Epoch(1)).unwrap().unwrap();
    // The host had checked the claims before the command, put its object after the command listed
    // the folder, and was killed.
    let log = |folder: &str| spark.path().join(format!("{folder}log/{:020}/join.0.1", 1));
    fs::create_dir_all(log("").parent().unwrap()).unwrap();
    fs::copy(log("removed/2/"), log("")).unwrap();
    for epoch in 1..4 {
        let new = run(&spark, &host, "new", epoch, &rows(epoch, 100 + epoch));
        assert_eq!(new.rows, [matched(epoch, 100 + epoch, epoch * 10)]);
    }
    // A host without local state restores what the new code computed.
    host.stop();
    spark.delete_local();
    let row = [left("EUR", 15, 9)];
    let restored = run(&spark, &Host::start(), "new", 4, &row);
    assert_eq!(restored.rows, [matched(9, 101, 10)]);
}

fn numbers(range: std::ops::Range<i64>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

#[test]
fn state_is_rewound_to_its_beginning() {
    let (spark, host) = (Spark::new(), Host::start());
    for epoch in 0..3 {
        run(&spark, &host, "old", epoch, &rows(epoch, epoch));
    }
    spark.open_root().rewind(Epoch(0)).unwrap();
    let done = run(
        &spark,
        &host,
        "new",
        0,
        &[left("EUR", 25, 1), right("EUR", 30, 7), left("EUR", 35, 2)],
    );
    assert_eq!(
        done.rows.iter().map(|row| row.id).collect::<Vec<_>>(),
        [1, 2]
    );
    assert_eq!(done.rows[1], matched(2, 7, 30));
    assert_eq!(done.rows[0].rate, None, "nothing of the old state is left");
}

#[test]
fn rewind_that_cannot_be_restored_is_refused_without_changes() {
    let (spark, host) = (Spark::new(), Host::start());
    for epoch in 0..4 {
        run(&spark, &host, "a", epoch, &rows(epoch, epoch));
    }
    let error = refused(spark.open_root().rewind(Epoch(9)));
    assert_eq!(error.kind(), ErrorKind::InvalidState);
    assert!(error.to_string().contains("query/commits/8"), "{error}");
    // Without the beginning of the log, then without all of it up to the last remaining epoch.
    for lost in [0, 1] {
        fs::remove_dir_all(spark.path().join(format!("log/{lost:020}"))).unwrap();
        let error = refused(spark.open_root().rewind(Epoch(2)));
        assert_eq!(error.kind(), ErrorKind::Restore, "{error}");
        assert!(error.to_string().contains("epoch 2"), "{error}");
        assert_eq!(
            (
                files(&spark, "removed"),
                files(&spark, "rewinds"),
                files(&spark, "runs").len()
            ),
            (vec![], vec![], 2),
            "a claim and its mark"
        );
    }
    let nowhere = tempfile::tempdir().unwrap();
    let error = refused(
        Root::open(
            &nowhere.path().display().to_string(),
            &StorageOptions::default(),
        )
        .unwrap()
        .rewind(Epoch(0)),
    );
    assert_eq!(error.kind(), ErrorKind::StateMismatch, "{error}");
    let mistyped = nowhere.path().join("rot");
    let error = refused(Root::existing(
        &mistyped.display().to_string(),
        &StorageOptions::default(),
    ));
    assert_eq!(
        (error.kind(), mistyped.exists()),
        (ErrorKind::StateMismatch, false),
        "{error}"
    );
}

#[test]
fn dropped_epoch_may_have_other_results() {
    let (spark, host) = (Spark::new(), Host::start());
    run(&spark, &host, "a", 0, &rows(0, 1));
    spark.begin(1);
    let task = |run: &str, epoch| TaskRequest::new(&spark, run, epoch);
    task("a", 1).run(host.connect(), &rows(1, 2)).unwrap();
    let error = refused(task("b", 1).run(host.connect(), &rows(1, 3)));
    assert!(
        error
            .to_string()
            .contains(&format!("`holdfast epoch drop {} 1`", address(&spark))),
        "{error}"
    );
    let taken = spark.open_root().drop_epoch(Epoch(1)).unwrap().unwrap();
    assert_eq!(
        (
            taken.objects,
            files(&spark, &format!("removed/3/log/{:020}", 1)).len()
        ),
        (1, 1)
    );
    assert_eq!(
        run(&spark, &host, "c", 1, &rows(1, 3)).rows,
        [matched(1, 3, 10)]
    );
    let error = refused(spark.open_root().drop_epoch(Epoch(1)));
    assert_eq!(error.kind(), ErrorKind::InvalidState);
    assert!(
        error.to_string().contains(&format!(
            "`holdfast rewind {} --epoch 1`",
            spark.open_root().path().display()
        )),
        "{error}"
    );
    assert_eq!(
        run(&spark, &host, "c", 2, &[left("EUR", 15, 9)]).rows,
        [matched(9, 3, 10)]
    );
    // Nothing of epoch 9 is staged, so no run is fenced.
    assert_eq!(spark.open_root().drop_epoch(Epoch(9)).unwrap(), None);
    assert_eq!(
        run(&spark, &host, "c", 3, &[left("EUR", 15, 9)]).rows,
        [matched(9, 3, 10)]
    );
    // Spark retains only the commits of its last epochs.
    fs::remove_file(spark.path().join("query/commits/1")).unwrap();
    assert_eq!(
        refused(spark.open_root().drop_epoch(Epoch(1))).kind(),
        ErrorKind::InvalidState
    );
    // The checkpoint may be missing for the moment.
    fs::remove_dir_all(spark.path().join("query/commits")).unwrap();
    let error = refused(spark.open_root().drop_epoch(Epoch(1)));
    assert!(
        error.to_string().contains("Spark has committed epoch 1"),
        "{error}"
    );
    assert_eq!(spark.objects(1).len(), 1);
}

#[test]
fn far_future_rows_are_removed_with_their_epoch() {
    const FAR: i64 = 1_000_000;
    let (spark, host) = (Spark::new(), Host::start());
    let run = |run: &str, epoch: i64, far: &[i64]| {
        fs::write(
            spark.path().join(format!("query/offsets/{epoch}")),
            "v1\n{\"batchTimestampMs\":0}\n0",
        )
        .unwrap();
        let mut task = TaskRequest::new(&spark, run, epoch);
        task.request["operator"]["max_ahead"] = (FAR - 1).into();
        let mut rows = rows(epoch, epoch);
        rows.extend(far.iter().map(|id| left("EUR", FAR, *id)));
        task.run(host.connect(), &rows).unwrap();
    };
    let far_future = |epochs: std::ops::Range<i64>| {
        epochs
            .map(|epoch| format!("{epoch:020}.0.arrow"))
            .collect::<Vec<_>>()
    };
    for epoch in 0..4 {
        run("old", epoch, &[epoch]);
        if epoch < 3 {
            spark.commit(epoch);
        }
    }
    spark.open_root().drop_epoch(Epoch(3)).unwrap();
    assert_eq!(
        (
            files(&spark, "ahead/join"),
            files(&spark, "removed/2/ahead/join")
        ),
        (far_future(0..3), far_future(3..4))
    );
    spark.open_root().rewind(Epoch(1)).unwrap();
    assert_eq!(
        (
            files(&spark, "ahead/join"),
            files(&spark, "removed/3/ahead/join")
        ),
        (far_future(0..1), far_future(1..3))
    );
    // Other code has other far-future rows.
    run("new", 1, &[7, 8]);
    assert_eq!(ids(&spark, "ahead/join", 1), [7, 8]);
}

/// The ids of an epoch's far-future rows.
fn ids(spark: &Spark, folder: &str, epoch: i64) -> Vec<i64> {
    let file = fs::File::open(spark.path().join(format!("{folder}/{epoch:020}.0.arrow"))).unwrap();
    let batches = FileReader::try_new(file, None)
        .unwrap()
        .map(|batch| batch.unwrap());
    batches
        .flat_map(|batch| batch["id"].as_primitive::<Int64Type>().values().to_vec())
        .collect()
}

#[test]
fn partial_files_of_a_killed_host_are_ignored() {
    if !Spark::is_local() {
        return;
    }
    let (spark, host) = (Spark::new(), Host::start());
    for epoch in 0..4 {
        run(&spark, &host, "old", epoch, &rows(epoch, epoch));
    }
    spark.begin(4);
    TaskRequest::new(&spark, "old", 4)
        .run(host.connect(), &rows(4, 4))
        .unwrap();
    let part = |epoch: i64| spark.path().join(format!("log/{epoch:020}/join.0.1#1"));
    (0..5).for_each(|epoch| fs::write(part(epoch), "a part of it").unwrap());
    spark.open_root().drop_epoch(Epoch(4)).unwrap();
    // The file could be of a running put of a query that was started meanwhile.
    assert_eq!(spark.objects(4), ["join.0.1#1"]);
    spark.open_root().rewind(Epoch(3)).unwrap();
    assert_eq!(
        (files(&spark, "query/commits"), spark.objects(3)),
        (numbers(0..3), vec!["join.0.1#1".to_owned()])
    );
    assert_eq!(
        run(&spark, &host, "new", 3, &[left("EUR", 25, 1)]).rows,
        [matched(1, 2, 20)]
    );
    assert_eq!(
        spark
            .open_root()
            .log
            .remove_before(Epoch(2), RunNumber(1))
            .unwrap(),
        2
    );
    assert!(!part(0).exists() && !part(1).exists() && part(2).exists());
}

#[test]
fn running_host_takes_snapshots_of_recomputed_epochs() {
    let (spark, host) = (Spark::new(), Host::start());
    let run = |run: &str, epoch: i64| {
        let settings = json!({"uncommitted_max_bytes": -1, "memory": 1 << 28,
            "snapshot_interval": 0, "retain_epochs": 1_000});
        TaskRequest::new(&spark, run, epoch)
            .with("/settings", settings)
            .run(host.connect(), &rows(epoch, epoch))
            .unwrap();
    };
    let snapshots = || {
        let whole = files(&spark, "snapshots/join/0")
            .into_iter()
            .filter(|file| !file.contains('#') && !file.ends_with(".removal"));
        whole
            .filter_map(|file| file.split_once('.')?.0.parse::<i64>().ok())
            .collect::<Vec<_>>()
    };
    spark.run_epochs_until(
        0,
        || snapshots().iter().max() >= Some(&30),
        |epoch| run("old", epoch),
    );
    spark.open_root().rewind(Epoch(2)).unwrap();
    (2..30).for_each(|epoch| spark.epoch(epoch, || run("new", epoch)));
    // A snapshot is taken long before the query reaches its earlier epoch again.
    wait_until(
        || snapshots().iter().any(|epoch| (2..30).contains(epoch)),
        || "no snapshot since the rewind".to_owned(),
    );
}
