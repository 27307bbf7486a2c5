//! The space of versions that no read can ask for: it comes back by itself, and nothing else goes
//! with it.
#![allow(clippy::unwrap_used, reason = "a test")]

use holdfast_core::{OffsetChange, StoreKind, StoreSpec, Task, TaskOptions, Timestamp, Value};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const KEYS: i64 = 1_000;
const ROWS: i64 = 60_000;

fn open(dir: &Path) -> Arc<Task> {
    let kind = StoreKind::Versioned {
        history_retention: ROWS,
        segment_interval: ROWS / 24,
    };
    Task::open(dir, &[StoreSpec::new("v", kind)], TaskOptions::default()).unwrap()
}

/// A value that no compression makes smaller.
fn value(n: i64) -> [u8; 128] {
    let mut state = n as u64;
    std::array::from_fn(|_| {
        state = state
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 56) as u8
    })
}

fn put(task: &Task, n: i64, time: i64) {
    let mut tx = task.transaction().unwrap();
    task.versioned("v")
        .unwrap()
        .put(
            &mut tx,
            &(n % KEYS).to_be_bytes(),
            Some(&value(n)),
            Timestamp(time),
        )
        .unwrap();
}

/// A retention's worth of versions, in files.
fn filled(dir: &Path) -> Arc<Task> {
    let task = open(dir);
    (0..ROWS).for_each(|n| put(&task, n, n));
    task.commit(OffsetChange::Keep).unwrap();
    task.flush(true).unwrap();
    task
}

fn put_later(task: &Task, time: i64) {
    put(task, 0, time);
    task.commit(OffsetChange::Keep).unwrap();
}

/// Each key has its newest version.
fn check_newest(task: &Task, later: i64) {
    let mut tx = task.begin().unwrap();
    let store = task.versioned("v").unwrap();
    for key in 0..KEYS {
        let newest = if key == 0 {
            (value(0), later)
        } else {
            (value(ROWS - KEYS + key), ROWS - KEYS + key)
        };
        let found = |found: Option<holdfast_core::Version<'_>>| {
            found.map(|version| (version.value.to_vec(), version.timestamp.0))
        };
        assert_eq!(
            store.get(&mut tx, &key.to_be_bytes(), found).unwrap(),
            Some((newest.0.to_vec(), newest.1)),
            "key {key}"
        );
    }
}

fn file_bytes(task: &Task) -> u64 {
    match task.metrics().unwrap().get("file-bytes") {
        Some(Value::Whole(bytes)) => bytes,
        other => panic!("file-bytes is {other:?}"),
    }
}

#[test]
fn expired_versions_give_their_space_back_by_themselves() {
    let dir = tempfile::tempdir().unwrap();
    let task = filled(dir.path());
    let before = file_bytes(&task);
    assert!(before > 5 << 20, "{before}");
    put_later(&task, 10 * ROWS);
    // Nobody compacts anything. How long it takes is the machine's affair; without the thread it
    // never comes.
    let begin = Instant::now();
    let mut after = before;
    while after > before / 10 && begin.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(20));
        after = file_bytes(&task);
    }
    assert!(after <= before / 10, "{after} of {before}");
    check_newest(&task, 10 * ROWS);
}

#[test]
fn small_files_that_do_not_overlap_become_one() {
    let dir = tempfile::tempdir().unwrap();
    let (task, count) = (open(dir.path()), 1_000);
    for n in 0..count {
        // One key: its versions lie in the order of their times.
        put(&task, n * KEYS, n);
        task.commit(OffsetChange::Keep).unwrap();
        task.flush(true).unwrap();
    }
    let is_table =
        |file: &std::path::PathBuf| file.extension().is_some_and(|extension| extension == "sst");
    let tables = || {
        std::fs::read_dir(dir.path())
            .unwrap()
            .map(|file| file.unwrap().path())
            .filter(is_table)
            .count()
    };
    let (before, begin) = (tables(), Instant::now());
    assert!(before > 64, "{before}");
    let mut later = ROWS;
    while tables() > 40 && begin.elapsed() < Duration::from_secs(120) {
        // Each segment may leave a file of its own.
        later += ROWS / 24;
        put_later(&task, later);
        std::thread::sleep(Duration::from_secs(1));
    }
    assert!(tables() <= 40, "{} of {before} files", tables());
    let mut tx = task.begin().unwrap();
    let newest = task
        .versioned("v")
        .unwrap()
        .get(&mut tx, &0_i64.to_be_bytes(), |found| {
            found.map(|version| version.value.to_vec())
        });
    assert_eq!(newest.unwrap(), Some(value(0).to_vec()));
}

#[test]
fn a_task_closes_in_the_midst_of_a_rewrite() {
    let dir = tempfile::tempdir().unwrap();
    let mut task = filled(dir.path());
    for n in 10..20 {
        put_later(&task, n * ROWS);
        task.close().unwrap();
        drop(task);
        task = open(dir.path());
        check_newest(&task, n * ROWS);
        // One that is dropped instead of closed lets go of its directory, too.
        put_later(&task, n * ROWS + ROWS / 2);
        drop(task);
        task = open(dir.path());
        check_newest(&task, n * ROWS + ROWS / 2);
    }
}
