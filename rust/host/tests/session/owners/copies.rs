//! A root and its copy, which has the same id, on the same hosts.

use holdfast_host::net::message::MessageKind;

use super::{endpoint, first_epoch, greeted, opened, proof};
use crate::support::{Host, SECRET, Spark, TaskRequest, left, matched};

/// The secret of the driver that runs the copy.
const OTHER_SECRET: &str = "5ec7e70fa11d71ve77";

/// A root with three epochs of three runs, and a copy of its first epoch, all on one host.
fn root_and_copy(host: &Host) -> (Spark, Spark) {
    let (spark, copy) = (Spark::new(), Spark::new());
    first_epoch(&spark, host.connect());
    copy.restore_backup(&spark.back_up());
    for (epoch, run) in [(1, "b"), (2, "c")] {
        spark.epoch(epoch, || {
            let task = TaskRequest::new(&spark, run, epoch);
            task.run(host.connect(), &[]).unwrap();
        });
    }
    copy.epoch(1, || {
        let task = of_copy(&copy, 1);
        task.run(host.connect(), &[]).unwrap();
    });
    (spark, copy)
}

fn of_copy(copy: &Spark, epoch: i64) -> TaskRequest {
    TaskRequest::new(copy, "d", epoch).with("/writer_secret", OTHER_SECRET)
}

#[test]
fn workers_of_a_copy_are_admitted_although_its_run_is_older() {
    let (a, b) = (Host::on_a_cluster(), Host::on_a_cluster());
    let (_spark, copy) = root_and_copy(&a);
    let owners = copy.owners(0);
    copy.begin(2);
    let done = of_copy(&copy, 2)
        .run(b.connect(), &[left("EUR", 10, 1)])
        .unwrap();
    assert_eq!(done.rows, [matched(1, 100, 10)]);
    assert_eq!(copy.owners(0), owners, "a serves it");
}

#[test]
fn worker_of_a_root_may_not_write_its_copy() {
    let host = Host::on_a_cluster();
    let (spark, copy) = root_and_copy(&host);
    copy.begin(2);
    let endpoint = endpoint(&copy, "owners");
    for (of, secret, expected) in [
        (&spark, SECRET, MessageKind::NotServed),
        (&copy, OTHER_SECRET, MessageKind::Opened),
    ] {
        let (stream, welcome) = greeted(&endpoint, proof(of, secret));
        assert_eq!(welcome, MessageKind::Welcome);
        assert_eq!(opened(stream, &of_copy(&copy, 2)), expected);
    }
}
