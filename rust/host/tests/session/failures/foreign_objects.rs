//! Log objects of another root, which were copied into a root by hand.

use std::fs;

use holdfast_core::ErrorKind;

use crate::support::{Host, Spark, TaskRequest, left, matched, refused, right};

/// The object of an epoch, and the record of its decision.
const OBJECT: &str = "join.0.1";
const RECORD: &str = "decided.0";

/// Runs three epochs with a rate each, and deletes the local database.
fn three_epochs(rate: i64) -> Spark {
    let (spark, host) = (Spark::new(), Host::start());
    for epoch in 0..3 {
        let task = TaskRequest::new(&spark, "a", epoch);
        let rows = [right("EUR", 10 * epoch, rate + epoch)];
        spark.epoch(epoch, || task.run(host.connect(), &rows).unwrap());
    }
    host.stop();
    spark.delete_local();
    spark
}

/// Replaces these files of epoch 1 by those of another root. Checks that a host with a new disk
/// refuses them, and that it restores the state once the root's own files are there again.
fn refuses(files: &[&str]) {
    let (spark, other) = (three_epochs(100), three_epochs(200));
    let place = |spark: &Spark, file: &str| spark.path().join(format!("log/{:020}/{file}", 1));
    let mut own = Vec::new();
    for file in files {
        let (replaced, foreign) = (place(&spark, file), place(&other, file));
        own.push((replaced.clone(), fs::read(&replaced).unwrap()));
        fs::write(replaced, fs::read(foreign).unwrap()).unwrap();
    }
    spark.begin(3);
    let task = |attempt| TaskRequest::new(&spark, "a", 3).attempt(attempt);
    let asked = [left("EUR", 15, 1)];
    let error = refused(task(1).run(Host::start().connect(), &asked));
    assert_eq!(error.kind(), ErrorKind::Restore, "{error}");
    for words in [
        "operator join, partition 0, run 1, epoch 1",
        "does not follow the state before it",
        "Restore `log/` from a backup",
    ] {
        assert!(
            error.to_string().contains(words),
            "{words:?} is not in {error}"
        );
    }
    assert!(spark.objects(3).is_empty(), "nothing was staged");
    for (file, content) in own {
        fs::write(file, content).unwrap();
    }
    let done = task(2).run(Host::start().connect(), &asked).unwrap();
    assert_eq!(done.rows, [matched(1, 101, 10)]);
}

#[test]
fn epoch_of_another_root_is_refused() {
    refuses(&[OBJECT, RECORD]);
}

#[test]
fn object_that_did_not_decide_its_epoch_is_refused() {
    refuses(&[OBJECT]);
}
