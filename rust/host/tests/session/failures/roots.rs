//! Roots that are deleted while a host has their databases open, as in a notebook.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use holdfast_host::host::Host as HostState;
use holdfast_host::session::{Routed, Session};

use crate::support::{Host, Spark, TaskRequest, batch, left, matched, right, schema, unmatched};

#[test]
fn root_that_is_created_again_at_its_path_begins_empty() {
    let (spark, host) = (Spark::new(), Host::start());
    for epoch in 0..2 {
        spark.epoch(epoch, || {
            TaskRequest::new(&spark, "a", epoch)
                .run(host.connect(), &[right("EUR", epoch, 100 + epoch)])
                .unwrap()
        });
    }
    spark.make_anew("query-2");
    let run = |epoch: i64, rows: &[_]| {
        spark.epoch(epoch, || {
            TaskRequest::new(&spark, "b", epoch)
                .with("/query_id", "query-2")
                .with("/instance", "call-2")
                .run(host.connect(), rows)
                .unwrap()
                .rows
        })
    };
    let first = run(0, &[left("EUR", 10, 1), right("EUR", 20, 200)]);
    assert_eq!(first, [unmatched(1)], "nothing of the former root is left");
    assert_eq!(run(1, &[left("EUR", 20, 2)]), [matched(2, 200, 20)]);
}

/// How many files below a folder this process has open, deleted ones included.
fn open_files(folder: &Path) -> usize {
    let links = fs::read_dir("/proc/self/fd").unwrap();
    links
        .filter_map(|link| fs::read_link(link.unwrap().path()).ok())
        .filter(|file| file.starts_with(folder))
        .count()
}

#[test]
fn databases_of_a_deleted_root_are_closed() {
    let (spark, host) = (Spark::new(), Arc::new(HostState::new(None, None)));
    spark.begin(0);
    let request = TaskRequest::new(&spark, "a", 0).request.to_string();
    let Ok(Routed::Local(mut session, _)) = Session::open(&host, request.as_bytes()) else {
        panic!("it opens here")
    };
    session.push(batch(0, &[right("EUR", 10, 100)])).unwrap();
    session.finish(Some(&*schema()), &mut |_| Ok(())).unwrap();
    let folder = spark.path().to_owned();
    host.close_gone_roots();
    assert!(open_files(&folder) > 0, "the root is still there");
    spark.delete();
    host.close_gone_roots();
    assert_eq!(open_files(&folder), 0);
    // The temporary folder must exist when the test removes it.
    fs::create_dir_all(&folder).unwrap();
}
