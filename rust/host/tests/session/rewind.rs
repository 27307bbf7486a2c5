//! Epochs taken back by hand.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_ipc::reader::FileReader;
use holdfast_core::ErrorKind;
use holdfast_host::protocol::{Epoch, RunNumber};
use holdfast_host::root::{Root, StorageOptions};
use serde_json::json;

use crate::support::{Database, Done, Host, PATIENCE, Row, Spark, left, matched, refused, right};

fn root(spark: &Spark) -> Root {
    Root::open(
        &spark.path().display().to_string(),
        &StorageOptions::default(),
    )
    .unwrap()
}

/// The root as a user gives it: of an object store its address.
fn address(spark: &Spark) -> String {
    Database::new(spark, "any", 0).request["root"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// An epoch's rate, and what joins it: `rate` says which code computed it.
fn rows(epoch: i64, rate: i64) -> Vec<Row> {
    vec![
        right("EUR", epoch * 10, rate),
        left("EUR", epoch * 10 + 5, epoch),
    ]
}

fn run(spark: &Spark, host: &Host, run: &str, epoch: i64, rows: &[Row]) -> Done {
    spark.epoch(epoch, || {
        Database::new(spark, run, epoch)
            .run(host.connect(), rows)
            .unwrap()
    })
}

fn files(spark: &Spark, folder: &str) -> Vec<String> {
    let Ok(files) = fs::read_dir(spark.path().join(folder)) else {
        return Vec::new();
    };
    let mut names: Vec<String> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_state_that_was_taken_back_goes_on_with_other_code() {
    for host_lives in [true, false] {
        let (spark, mut host) = (Spark::new(), Host::start());
        for epoch in 0..6 {
            run(&spark, &host, "old", epoch, &rows(epoch, epoch));
        }
        // What was staged and not committed goes, too.
        spark.begin(6);
        Database::new(&spark, "old", 6)
            .run(host.connect(), &rows(6, 6))
            .unwrap();
        if !host_lives {
            host.stop();
            host = Host::start();
        }
        let taken = root(&spark).rewind(Epoch(3)).unwrap();
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
        // A driver that lives on is told.
        spark.begin(3);
        let late = Database::new(&spark, "old", 3).run(host.connect(), &rows(3, 3));
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
        // And what the new code computed stays, also for a host that has nothing.
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
fn what_a_fenced_host_put_behind_the_command_is_in_nobodys_way() {
    let (spark, host) = (Spark::new(), Host::start());
    for epoch in 0..6 {
        run(&spark, &host, "old", epoch, &rows(epoch, epoch));
    }
    spark.begin(6);
    Database::new(&spark, "old", 6)
        .run(host.connect(), &rows(6, 6))
        .unwrap();
    root(&spark).rewind(Epoch(3)).unwrap();
    // It had looked at the claims before, the command at the folder, and it was killed then.
    let log = |folder: &str| spark.path().join(format!("{folder}log/{:020}/join.0.1", 6));
    fs::create_dir_all(log("").parent().unwrap()).unwrap();
    fs::copy(log("removed/2/"), log("")).unwrap();
    assert_eq!(root(&spark).drop_epoch(Epoch(3)).unwrap(), None);
    for epoch in 3..6 {
        let new = run(&spark, &host, "new", epoch, &rows(epoch, 100 + epoch));
        assert_eq!(new.rows, [matched(epoch, 100 + epoch, epoch * 10)]);
    }
}

fn numbers(range: std::ops::Range<i64>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

#[test]
fn a_state_goes_back_to_its_very_beginning() {
    let (spark, host) = (Spark::new(), Host::start());
    for epoch in 0..3 {
        run(&spark, &host, "old", epoch, &rows(epoch, epoch));
    }
    root(&spark).rewind(Epoch(0)).unwrap();
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
fn an_operator_that_came_later_begins_anew() {
    let (spark, host) = (Spark::new(), Host::start());
    let other = |run: &str, epoch: i64, rows: &[Row]| {
        Database::new(&spark, run, epoch)
            .with("/operator/name", "other")
            .with("/instance", "call-2")
            .run(host.connect(), rows)
            .unwrap()
    };
    for epoch in 0..5 {
        spark.begin(epoch);
        Database::new(&spark, "old", epoch)
            .run(host.connect(), &rows(epoch, epoch))
            .unwrap();
        if epoch >= 3 {
            other("old", epoch, &rows(epoch, epoch));
        }
        spark.commit(epoch);
    }
    root(&spark).rewind(Epoch(2)).unwrap();
    for epoch in 2..4 {
        spark.begin(epoch);
        Database::new(&spark, "new", epoch)
            .run(host.connect(), &[])
            .unwrap();
        let done = other("new", epoch, &rows(epoch, 100 + epoch));
        assert_eq!(done.rows, [matched(epoch, 100 + epoch, epoch * 10)]);
        spark.commit(epoch);
    }
    // What it put in epoch 2 is there, although it had come in epoch 3 before.
    spark.begin(4);
    assert_eq!(
        other("new", 4, &[left("EUR", 27, 1)]).rows,
        [matched(1, 102, 20)]
    );
}

#[test]
fn what_cannot_be_restored_is_refused_and_nothing_is_touched() {
    let (spark, host) = (Spark::new(), Host::start());
    for epoch in 0..4 {
        run(&spark, &host, "a", epoch, &rows(epoch, epoch));
    }
    let error = refused(root(&spark).rewind(Epoch(9)));
    assert_eq!(error.kind(), ErrorKind::InvalidState);
    assert!(error.to_string().contains("query/commits/8"), "{error}");
    // The log's beginning, then all of it up to the very epoch that would be the last.
    for gone in [0, 1] {
        fs::remove_dir_all(spark.path().join(format!("log/{gone:020}"))).unwrap();
        let error = refused(root(&spark).rewind(Epoch(2)));
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
fn a_database_that_is_ahead_without_a_rewind_stays_an_error() {
    let (spark, host) = (Spark::new(), Host::start());
    for epoch in 0..4 {
        run(&spark, &host, "a", epoch, &rows(epoch, epoch));
    }
    root(&spark).rewind(Epoch(3)).unwrap();
    for epoch in 3..6 {
        run(&spark, &host, "b", epoch, &rows(epoch, epoch));
    }
    spark.begin(6);
    Database::new(&spark, "b", 6)
        .run(host.connect(), &[])
        .unwrap();
    // The log still has what the state has.
    spark.restore_checkpoint(3, 6);
    let error = refused(Database::new(&spark, "c", 3).run(host.connect(), &rows(3, 3)));
    assert!(
        error
            .to_string()
            .contains(&format!("`holdfast rewind {} --epoch 3`", address(&spark))),
        "{error}"
    );
    root(&spark).rewind(Epoch(3)).unwrap();
    assert_eq!(
        run(&spark, &host, "d", 3, &[left("EUR", 55, 1)]).rows,
        [matched(1, 2, 20)]
    );
}

#[test]
fn an_older_checkpoint_is_noticed_by_hosts_with_new_databases_too() {
    let (spark, host) = (Spark::new(), Host::start());
    for epoch in 0..6 {
        run(&spark, &host, "a", epoch, &rows(epoch, epoch));
    }
    spark.begin(6);
    Database::new(&spark, "a", 6)
        .run(host.connect(), &rows(6, 6))
        .unwrap();
    host.stop();
    spark.delete_local();
    spark.restore_checkpoint(3, 6);
    let host = Host::start();
    let error = refused(Database::new(&spark, "b", 3).run(host.connect(), &rows(3, 3)));
    for part in [
        "stands at epoch 5",
        "older checkpoint was restored",
        "--epoch 3`",
    ] {
        assert!(
            error.to_string().contains(part),
            "{part:?} is not in {error}"
        );
    }
    root(&spark).rewind(Epoch(3)).unwrap();
    assert_eq!(
        run(&spark, &host, "c", 3, &[left("EUR", 55, 1)]).rows,
        [matched(1, 2, 20)]
    );
}

#[test]
fn a_commit_that_the_power_took_is_no_older_checkpoint() {
    let (spark, host) = (Spark::new(), Host::start());
    for epoch in 0..4 {
        run(&spark, &host, "a", epoch, &rows(epoch, epoch));
    }
    spark.begin(4);
    Database::new(&spark, "a", 4)
        .run(host.connect(), &rows(4, 4))
        .unwrap();
    host.stop();
    spark.delete_local();
    // Spark makes nothing durable: the offsets of 4 and the commit of 3 may be gone, and what was
    // put of 4 be there.
    spark.restore_checkpoint(3, 4);
    let host = Host::start();
    assert_eq!(
        run(&spark, &host, "b", 3, &rows(3, 3)).rows,
        [matched(3, 3, 30)]
    );
    assert_eq!(
        run(&spark, &host, "b", 4, &rows(4, 4)).rows,
        [matched(4, 4, 40)]
    );
}

#[test]
fn a_dropped_epoch_may_come_to_other_results() {
    let (spark, host) = (Spark::new(), Host::start());
    run(&spark, &host, "a", 0, &rows(0, 1));
    spark.begin(1);
    let db = |run: &str, epoch| Database::new(&spark, run, epoch);
    db("a", 1).run(host.connect(), &rows(1, 2)).unwrap();
    let error = refused(db("b", 1).run(host.connect(), &rows(1, 3)));
    assert!(
        error
            .to_string()
            .contains(&format!("`holdfast epoch drop {} 1`", address(&spark))),
        "{error}"
    );
    let taken = root(&spark).drop_epoch(Epoch(1)).unwrap().unwrap();
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
    let error = refused(root(&spark).drop_epoch(Epoch(1)));
    assert_eq!(error.kind(), ErrorKind::InvalidState);
    assert!(
        error.to_string().contains(&format!(
            "`holdfast rewind {} --epoch 1`",
            root(&spark).path().display()
        )),
        "{error}"
    );
    assert_eq!(
        run(&spark, &host, "c", 2, &[left("EUR", 15, 9)]).rows,
        [matched(9, 3, 10)]
    );
    // Nothing is staged of it, so nobody is fenced.
    assert_eq!(root(&spark).drop_epoch(Epoch(9)).unwrap(), None);
    assert_eq!(
        run(&spark, &host, "c", 3, &[left("EUR", 15, 9)]).rows,
        [matched(9, 3, 10)]
    );
    // Spark keeps no more than the commits of its last epochs.
    fs::remove_file(spark.path().join("query/commits/1")).unwrap();
    assert_eq!(
        refused(root(&spark).drop_epoch(Epoch(1))).kind(),
        ErrorKind::InvalidState
    );
    // And the checkpoint may be elsewhere for now.
    fs::remove_dir_all(spark.path().join("query/commits")).unwrap();
    let error = refused(root(&spark).drop_epoch(Epoch(1)));
    assert!(
        error
            .to_string()
            .contains("later epochs are based on epoch 1"),
        "{error}"
    );
    assert_eq!(spark.objects(1).len(), 1);
}

/// A task of an operator under another name.
fn named(spark: &Spark, name: &str, run: &str, epoch: i64) -> Database {
    Database::new(spark, run, epoch)
        .with("/operator/name", name)
        .with("/instance", format!("{run} {name}"))
}

#[test]
fn an_operator_that_an_older_run_had_not_come_to_is_computed_by_the_next() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    // Operators of one query stage one after the other, and its driver dies in between.
    named(&spark, "join", "a", 0)
        .run(host.connect(), &rows(0, 1))
        .unwrap();
    for operator in ["join", "behind"] {
        named(&spark, operator, "b", 0)
            .run(host.connect(), &rows(0, 1))
            .unwrap();
    }
    spark.commit(0);
    spark.begin(1);
    for operator in ["join", "behind"] {
        assert_eq!(
            named(&spark, operator, "b", 1)
                .run(host.connect(), &rows(1, 2))
                .unwrap()
                .rows,
            [matched(1, 2, 10)]
        );
    }
}

#[test]
fn an_operator_whose_first_epoch_went_on_without_it_begins_anew() {
    let (spark, host) = (Spark::new(), Host::start());
    let other = |run: &str, epoch: i64, retention: i64| {
        named(&spark, "other", run, epoch)
            .with("/operator/history_retention", retention)
            .run(host.connect(), &rows(epoch, epoch))
    };
    run(&spark, &host, "a", 0, &rows(0, 1));
    // It is written down, and its task fails: rolled back, the query goes on without it.
    spark.begin(1);
    drop(
        named(&spark, "other", "b", 1)
            .pushed(host.connect(), &rows(1, 1))
            .unwrap(),
    );
    let (file, started) = (spark.path().join("operators/other.json"), Instant::now());
    while !file.exists() {
        assert!(
            started.elapsed() < PATIENCE,
            "the operator is not written down"
        );
        thread::sleep(Duration::from_millis(2));
    }
    for epoch in 1..4 {
        run(&spark, &host, "c", epoch, &rows(epoch, epoch));
    }
    // Mended, with another setting: it begins with this epoch, and nothing is missing before it.
    spark.begin(4);
    Database::new(&spark, "d", 4)
        .run(host.connect(), &rows(4, 4))
        .unwrap();
    other("d", 4, 7_000_000).unwrap();
    // Now there is a state that the setting must fit.
    let error = refused(other("e", 4, 8_000_000));
    assert!(
        error
            .to_string()
            .contains("history_retention was 7000000, is 8000000"),
        "{error}"
    );
    // Unless it goes with the epoch in which it began.
    root(&spark).drop_epoch(Epoch(4)).unwrap().unwrap();
    Database::new(&spark, "f", 4)
        .run(host.connect(), &rows(4, 4))
        .unwrap();
    other("f", 4, 8_000_000).unwrap();
    spark.commit(4);
    spark.begin(5);
    assert!(
        refused(other("g", 5, 7_000_000))
            .to_string()
            .contains("was 8000000, is 7000000")
    );
}

#[test]
fn what_was_set_aside_in_an_epoch_is_taken_back_with_it() {
    const FAR: i64 = 1_000_000;
    let (spark, host) = (Spark::new(), Host::start());
    let run = |run: &str, epoch: i64, far: &[i64]| {
        fs::write(
            spark.path().join(format!("query/offsets/{epoch}")),
            "v1\n{\"batchTimestampMs\":0}\n0",
        )
        .unwrap();
        let mut db = Database::new(&spark, run, epoch);
        db.request["operator"]["max_ahead"] = (FAR - 1).into();
        let mut rows = rows(epoch, epoch);
        rows.extend(far.iter().map(|id| left("EUR", FAR, *id)));
        db.run(host.connect(), &rows).unwrap();
    };
    let aside = |epochs: std::ops::Range<i64>| {
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
    root(&spark).drop_epoch(Epoch(3)).unwrap();
    assert_eq!(
        (
            files(&spark, "ahead/join"),
            files(&spark, "removed/2/ahead/join")
        ),
        (aside(0..3), aside(3..4))
    );
    root(&spark).rewind(Epoch(1)).unwrap();
    assert_eq!(
        (
            files(&spark, "ahead/join"),
            files(&spark, "removed/3/ahead/join")
        ),
        (aside(0..1), aside(1..3))
    );
    // Other code, other rows.
    run("new", 1, &[7, 8]);
    assert_eq!(ids(&spark, "ahead/join", 1), [7, 8]);
}

/// The ids of rows that were set aside.
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
fn what_a_host_left_that_was_killed_in_mid_put_is_in_nobodys_way() {
    if !Spark::is_local() {
        return;
    }
    let (spark, host) = (Spark::new(), Host::start());
    for epoch in 0..4 {
        run(&spark, &host, "old", epoch, &rows(epoch, epoch));
    }
    spark.begin(4);
    Database::new(&spark, "old", 4)
        .run(host.connect(), &rows(4, 4))
        .unwrap();
    let part = |epoch: i64| spark.path().join(format!("log/{epoch:020}/join.0.1#1"));
    (0..5).for_each(|epoch| fs::write(part(epoch), "a part of it").unwrap());
    root(&spark).drop_epoch(Epoch(4)).unwrap();
    // It may as well be a put that is under way, of a query that was started meanwhile.
    assert_eq!(spark.objects(4), ["join.0.1#1"]);
    root(&spark).rewind(Epoch(3)).unwrap();
    assert_eq!(
        (files(&spark, "query/commits"), spark.objects(3)),
        (numbers(0..3), vec!["join.0.1#1".to_owned()])
    );
    assert_eq!(
        run(&spark, &host, "new", 3, &[left("EUR", 25, 1)]).rows,
        [matched(1, 2, 20)]
    );
    assert_eq!(root(&spark).log.remove_before(Epoch(2)).unwrap(), 2);
    assert!(!part(0).exists() && !part(1).exists() && part(2).exists());
}

#[test]
fn a_host_that_lives_on_takes_snapshots_of_the_epochs_that_are_computed_anew() {
    let (spark, host) = (Spark::new(), Host::start());
    let run = |run: &str, epoch: i64| {
        let settings = json!({"uncommitted_max_bytes": -1, "memory": 1 << 28,
            "snapshot_interval": 0, "retain_epochs": 1_000});
        Database::new(&spark, run, epoch)
            .with("/settings", settings)
            .run(host.connect(), &rows(epoch, epoch))
            .unwrap();
    };
    let snapshots = || {
        let whole = files(&spark, "snapshots/join/0")
            .into_iter()
            .filter(|file| !file.contains('#'));
        whole
            .filter_map(|file| file.split_once('.')?.0.parse::<i64>().ok())
            .collect::<Vec<_>>()
    };
    spark.run_epochs_until(
        0,
        || snapshots().iter().max() >= Some(&30),
        |epoch| run("old", epoch),
    );
    root(&spark).rewind(Epoch(2)).unwrap();
    (2..30).for_each(|epoch| spark.epoch(epoch, || run("new", epoch)));
    // Long before it has come again to where it was.
    let started = Instant::now();
    while !snapshots().iter().any(|epoch| (2..30).contains(epoch)) {
        assert!(
            started.elapsed() < PATIENCE,
            "no snapshot since the state was taken back"
        );
        thread::sleep(Duration::from_millis(5));
    }
}
