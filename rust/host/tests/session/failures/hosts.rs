//! Hosts that are killed, and local databases that are deleted or damaged.

use holdfast_core::{ErrorKind, Result};

use crate::support::{
    Host, HostProcess, Spark, TaskRequest, damage_tables, deleted, left, matched, right, unmatched,
};

#[test]
fn error_of_a_killed_host_says_that_spark_retries_the_task() {
    let (spark, host) = (Spark::new(), HostProcess::start());
    spark.begin(0);
    let client = TaskRequest::new(&spark, "a", 0)
        .pushed(host.connect(), &[right("EUR", 10, 100)])
        .unwrap();
    host.kill();
    let error = match client.finish() {
        Err(error) => error,
        Ok(mut output) => output
            .find_map(Result::err)
            .expect("no host, no acknowledgement"),
    };
    assert_eq!(error.kind(), ErrorKind::InvalidState);
    assert!(error.to_string().contains("retries the task"), "{error}");
}

#[test]
fn killed_host_loses_nothing_that_was_staged() {
    let spark = Spark::new();
    // Each host stages one epoch and is killed while it holds that epoch prepared.
    for epoch in 0..4 {
        let host = HostProcess::start();
        spark.begin(epoch);
        let rows = [right("EUR", 10 + epoch, epoch), left("EUR", 9 + epoch, 1)];
        let done = TaskRequest::new(&spark, "a", epoch)
            .run(host.connect(), &rows)
            .unwrap();
        let expected = if epoch == 0 {
            unmatched(1)
        } else {
            matched(1, epoch - 1, 9 + epoch)
        };
        assert_eq!(done.rows, [expected]);
        host.kill();
        spark.commit(epoch);
    }
    // Each host reuses its predecessor's directory.
    assert_eq!(
        std::fs::read_dir(spark.local(0))
            .unwrap()
            .filter(|file| file.as_ref().unwrap().path().is_dir())
            .count(),
        1
    );
}

#[test]
fn deleted_local_directory_is_restored_from_the_log() {
    let spark = Spark::new();
    let host = Host::start();
    for epoch in 0..3 {
        spark.begin(epoch);
        let rows = [
            right("EUR", 10 * epoch, epoch),
            right("USD", 10 * epoch, -epoch),
            deleted("JPY", epoch),
        ];
        TaskRequest::new(&spark, "a", epoch)
            .run(host.connect(), &rows)
            .unwrap();
        spark.commit(epoch);
    }
    let probe = [
        left("EUR", 5, 1),
        left("EUR", 15, 2),
        left("USD", 99, 3),
        left("JPY", 99, 4),
    ];
    let expected = [
        matched(1, 0, 0),
        matched(2, 1, 10),
        matched(3, -2, 20),
        unmatched(4),
    ];
    // Deleted under a running host, then between two hosts.
    spark.delete_local();
    spark.begin(3);
    let mut done = TaskRequest::new(&spark, "a", 3)
        .run(host.connect(), &probe)
        .unwrap();
    done.rows.sort();
    assert_eq!(done.rows, expected);
    host.stop();
    spark.delete_local();
    let mut again = TaskRequest::new(&spark, "a", 3)
        .attempt(2)
        .run(Host::start().connect(), &probe)
        .unwrap();
    again.rows.sort();
    assert_eq!(
        (again.rows.as_slice(), again.staged.adopted),
        (expected.as_slice(), true)
    );
}

#[test]
fn state_ahead_of_a_lost_commit_is_rebuilt() {
    let (spark, host) = (Spark::new(), Host::start());
    for epoch in 0..3 {
        spark.begin(epoch);
        TaskRequest::new(&spark, "a", epoch)
            .run(host.connect(), &[right("EUR", 10 * epoch, epoch)])
            .unwrap();
        spark.commit(epoch);
    }
    spark.begin(3);
    TaskRequest::new(&spark, "a", 3)
        .run(host.connect(), &[])
        .unwrap();
    // The machine loses power: Spark's last commit and all later files are lost; the state has
    // epoch 2.
    for lost in ["query/commits/2", "query/offsets/3"] {
        std::fs::remove_file(spark.path().join(lost)).unwrap();
    }
    std::fs::remove_dir_all(spark.path().join(format!("log/{:020}", 3))).unwrap();
    let replay = TaskRequest::new(&spark, "b", 2)
        .run(host.connect(), &[right("EUR", 20, 2)])
        .unwrap();
    assert!(!replay.staged.adopted);
    spark.commit(2);
    spark.begin(3);
    let done = TaskRequest::new(&spark, "b", 3)
        .run(host.connect(), &[left("EUR", 99, 1)])
        .unwrap();
    assert_eq!(done.rows, [matched(1, 2, 20)]);
}

#[test]
fn damaged_local_database_is_restored_from_the_log() {
    let spark = Spark::new();
    let host = Host::start();
    spark.begin(0);
    TaskRequest::new(&spark, "a", 0)
        .run(host.connect(), &[right("EUR", 10, 100)])
        .unwrap();
    spark.commit(0);
    host.stop();
    let folder = std::fs::read_dir(spark.local(0))
        .unwrap()
        .map(|file| file.unwrap().path())
        .find(|path| path.is_dir())
        .unwrap();
    let manifest = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    for file in manifest.filter(|path| {
        path.file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with("MANIFEST")
    }) {
        std::fs::write(file, b"not a manifest").unwrap();
    }
    spark.begin(1);
    let host = Host::start();
    let done = TaskRequest::new(&spark, "a", 1)
        .run(host.connect(), &[left("EUR", 10, 1)])
        .unwrap();
    assert_eq!(done.rows, [matched(1, 100, 10)]);
}

#[test]
fn local_database_with_damaged_rows_is_restored_from_the_log() {
    // If a view was alive when the file was written, RocksDB may compact the file and find the
    // damage first; the host then rebuilds the database.
    assert!(
        (0..5).any(|_| damage_is_found_by_a_read()),
        "the damage was found at once each time"
    );
}

/// Returns false if the damage was found earlier.
fn damage_is_found_by_a_read() -> bool {
    let (spark, host) = (Spark::new(), Host::start());
    spark.epoch(0, || {
        TaskRequest::new(&spark, "a", 0)
            .run(host.connect(), &[right("EUR", 10, 100)])
            .unwrap()
    });
    // The next epoch applies the changes to the database.
    spark.epoch(1, || {
        TaskRequest::new(&spark, "a", 1)
            .run(host.connect(), &[])
            .unwrap()
    });
    host.stop();
    assert!(damage_tables(&spark, b"EUR") > 0);
    spark.begin(2);
    let host = Host::start();
    let rows = [left("EUR", 10, 1)];
    let first = TaskRequest::new(&spark, "a", 2).run(host.connect(), &rows);
    let is_refused = first.is_err();
    let done = first.unwrap_or_else(|error| {
        assert_eq!(error.kind(), ErrorKind::StoreCorrupted, "{error}");
        assert!(
            error
                .to_string()
                .ends_with("the retry of the task rebuilds it: nothing that was committed is lost"),
            "{error}"
        );
        TaskRequest::new(&spark, "a", 2)
            .attempt(2)
            .run(host.connect(), &rows)
            .unwrap()
    });
    assert_eq!(done.rows, [matched(1, 100, 10)]);
    is_refused
}

#[test]
fn next_host_starts_while_the_previous_one_closes() {
    let (spark, host) = (Spark::new(), Host::start());
    // Enough rows that the flush takes a while.
    let rows: Vec<_> = (0..100_000_i64)
        .map(|n| right(&format!("key-{n}"), n, n))
        .collect();
    spark.epoch(0, || {
        TaskRequest::new(&spark, "a", 0)
            .run(host.connect(), &rows)
            .unwrap()
    });
    // The next epoch applies the changes to the database.
    spark.epoch(1, || {
        TaskRequest::new(&spark, "a", 1)
            .run(host.connect(), &[])
            .unwrap()
    });
    let next = host.replaced();
    spark.begin(2);
    let done = TaskRequest::new(&spark, "a", 2)
        .run(next.connect(), &[left("key-7", 10, 1)])
        .unwrap();
    assert_eq!(done.rows, [matched(1, 7, 7)]);
}

#[test]
fn large_epoch_is_staged_in_chunks_and_restored() {
    let spark = Spark::new();
    let host = Host::start();
    spark.begin(0);
    // Keys that lz4 cannot compress: the records exceed 16 MiB.
    let rows: Vec<_> = (0..700_000_i64)
        .map(|n| {
            right(
                &format!(
                    "{:016x}",
                    n.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64.cast_signed())
                ),
                n,
                n,
            )
        })
        .collect();
    let done = TaskRequest::new(&spark, "a", 0)
        .run(host.connect(), &rows)
        .unwrap();
    assert_eq!(done.staged.records, 700_000);
    let retry = TaskRequest::new(&spark, "a", 0)
        .attempt(2)
        .run(host.connect(), &rows)
        .unwrap();
    assert!(retry.staged.adopted);
    assert_eq!(spark.objects(0), ["join.0.1"]);
    let chunks = spark.chunks(0);
    assert!(!chunks.is_empty());
    assert!(
        chunks.iter().all(|name| name.starts_with("join.0.1.1-")),
        "the second attempt's chunks were removed: {chunks:?}"
    );
    spark.commit(0);
    host.stop();
    spark.delete_local();
    spark.begin(1);
    let probe: Vec<_> = rows
        .iter()
        .step_by(70_000)
        .map(|row| match row {
            crate::support::Row::Right { key, rate, .. } => {
                left(key.as_deref().unwrap(), 800_000, *rate)
            }
            crate::support::Row::Left { .. } => unreachable!("all are right rows"),
        })
        .collect();
    let done = TaskRequest::new(&spark, "a", 1)
        .run(Host::start().connect(), &probe)
        .unwrap();
    assert_eq!(done.rows.len(), 10);
    assert!(
        done.rows.iter().all(|row| row.rate == Some(row.id)),
        "{:?}",
        done.rows
    );
}
