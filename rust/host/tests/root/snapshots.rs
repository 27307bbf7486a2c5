//! `snapshots/`: files that snapshots share, and the removal of old ones.

use std::fs;
use std::time::{Duration, SystemTime};

use holdfast_core::ErrorKind;
use holdfast_host::protocol::{Digest, Epoch, PartitionId, RunNumber, Term};
use holdfast_host::root::{KnownDigests, Root, SnapshotId};

use crate::support::{claim, name, own, refused, root};

#[test]
fn a_snapshot_copies_only_missing_files() {
    let (root, folder) = (root(), tempfile::tempdir().expect("a folder"));
    let database = folder.path();
    let file =
        |name: &str, content: &[u8]| fs::write(database.join(name), content).expect("writes");
    let mut known = KnownDigests::new();
    let mut put = |epoch| {
        let id = SnapshotId {
            operator: name("join"),
            partition: PartitionId(0),
            epoch: Epoch(epoch),
            chain: Digest::of(b"chain"),
            term: Term::first(RunNumber(1)),
        };
        let moved = root.snapshots.put(&id, database, &mut known).expect("puts");
        (moved.files, moved.bytes, moved.copied)
    };
    file("1.sst", &[1; 1_000]);
    file("MANIFEST", &[2; 10]);
    assert_eq!(put(1), (2, 1_010, 1_010));
    assert_eq!(put(2), (2, 1_010, 0), "nothing has changed");
    file("2.sst", &[3; 500]);
    file("MANIFEST", &[2; 20]);
    assert_eq!(
        put(3),
        (3, 1_520, 520),
        "the new file, and the one that has grown"
    );
}

#[test]
fn a_truncated_file_is_put_again_with_the_next_snapshot() {
    let (root, folder) = (root(), tempfile::tempdir().expect("a folder"));
    let id = |epoch| SnapshotId {
        operator: name("join"),
        partition: PartitionId(0),
        epoch: Epoch(epoch),
        chain: Digest::of(b"chain"),
        term: Term::first(RunNumber(1)),
    };
    fs::write(folder.path().join("1.sst"), [7; 1_000]).expect("writes");
    root.snapshots
        .put(&id(1), folder.path(), &mut KnownDigests::new())
        .expect("puts");
    let files = fs::read_dir(root.files().join("snapshots/join/0/files")).expect("lists");
    for file in files {
        fs::write(file.expect("a file").path(), [7; 500]).expect("cuts");
    }
    assert_eq!(
        root.snapshots
            .put(&id(2), folder.path(), &mut KnownDigests::new())
            .expect("puts")
            .copied,
        1_000
    );
    let fetched = folder.path().join("fetched");
    root.snapshots
        .fetch(&id(2), &fetched, &|_| ())
        .expect("is whole");
    assert_eq!(fs::read(fetched.join("1.sst")).expect("reads"), [7; 1_000]);
}

#[test]
fn only_the_owner_in_the_newest_run_removes_snapshots() {
    let (root, folder) = (root(), tempfile::tempdir().expect("a folder"));
    let (join, partition) = (name("join"), PartitionId(0));
    let newest = SnapshotId {
        operator: join.clone(),
        partition,
        epoch: Epoch(3),
        chain: Digest::of(b"chain"),
        term: Term::first(RunNumber(1)),
    };
    let other = Root::open(&root.opened.0, &root.opened.1).expect("opens");
    for epoch in 1..4 {
        fs::write(folder.path().join("CURRENT"), epoch.to_string()).expect("writes");
        let id = SnapshotId {
            operator: join.clone(),
            partition,
            epoch: Epoch(epoch),
            chain: Digest::of(b"chain"),
            term: Term::first(RunNumber(1)),
        };
        root.snapshots
            .put(&id, folder.path(), &mut KnownDigests::new())
            .expect("puts");
    }
    let remaining = || {
        other
            .snapshots
            .list(&join, partition)
            .expect("lists")
            .iter()
            .map(|id| id.epoch.0)
            .collect::<Vec<_>>()
    };
    let run = claim(&root, "a");
    own(&root, run, "one", &[]);
    own(&other, run, "two", &["one"]);
    refused(
        root.garbage.retain_newest(&newest, 2),
        ErrorKind::StoreClosed,
        &["this host does not own the partition"],
    );
    let newer = claim(&other, "b");
    refused(
        other.garbage.retain_newest(&newest, 2),
        ErrorKind::Fenced,
        &["run 2"],
    );
    assert_eq!(remaining(), [3, 2, 1]);
    own(&other, newer, "two", &[]);
    let newest = SnapshotId {
        term: Term::first(newer),
        ..newest
    };
    other.garbage.retain_newest(&newest, 2).expect("its own");
    assert_eq!(remaining(), [3, 2]);
}

#[test]
fn parts_of_files_that_a_killed_host_left_are_removed_with_an_old_snapshot() {
    let (root, folder) = (root(), tempfile::tempdir().expect("a folder"));
    if root.path() != root.files() {
        return;
    }
    let (join, partition) = (name("join"), PartitionId(0));
    fs::write(folder.path().join("CURRENT"), "x").expect("writes");
    let id = |epoch| SnapshotId {
        operator: join.clone(),
        partition,
        epoch: Epoch(epoch),
        chain: Digest::of(b"chain"),
        term: Term::first(RunNumber(1)),
    };
    for epoch in 1..3 {
        root.snapshots
            .put(&id(epoch), folder.path(), &mut KnownDigests::new())
            .expect("puts");
    }
    let part = |name: &str, age: u64| {
        let path = root.files().join("snapshots/join/0/files").join(name);
        let file = fs::File::create(&path).expect("makes");
        file.set_modified(SystemTime::now() - Duration::from_secs(age))
            .expect("dates");
        path
    };
    let (left, under_way) = (part("0123-1#1", 86_400), part("4567-1#1", 60));
    let run = claim(&root, "a");
    own(&root, run, "one", &[]);
    root.garbage.retain_newest(&id(2), 1).expect("its own");
    assert!(!left.exists() && under_way.exists());
    assert_eq!(
        fs::read_dir(under_way.parent().expect("a folder"))
            .expect("lists")
            .count(),
        2,
        "and the one that is needed"
    );
}
