//! Collections beside concurrent hosts, and the requests that a collection sends.

use std::collections::HashMap;
use std::fs;
use std::ops::Range;

use holdfast_core::ErrorKind;

use super::*;
use crate::protocol::{Digest, Generation, HostId, Owner, PartitionDecision, Term};
use crate::root::testing::{ConcurrentChange, Fault, FaultyStore};
use crate::root::{FollowerName, KnownDigests, Ownership, OwnershipRequest, Root};

fn root() -> (Arc<FaultyStore>, Root, RunNumber) {
    let objects = Arc::new(FaultyStore::new(Fault::None));
    let root = objects.root();
    let run = root.runs.claim("q", "a", Epoch(0)).expect("claims");
    (objects, root, run)
}

/// Makes a host the owner of partition 0.
fn acquire(root: &Root, run: RunNumber) -> Term {
    let host = Owner {
        term: Term::first(run),
        host: HostId("one".to_owned()),
        endpoint: None,
        application: None,
    };
    let request = OwnershipRequest {
        operator: &id(0, 0).operator,
        partition: PartitionId(0),
        run,
        host: &host,
        unreachable: &HashMap::new(),
        restored: None,
    };
    let Ownership::Held(term) = root.owners.acquire(&request).expect("asks") else {
        panic!("no other host has it")
    };
    term
}

fn retention(epochs: i64) -> LogRetention {
    LogRetention {
        epochs,
        snapshots: 2,
        follower_lag: 12,
    }
}

/// The decision of an epoch with these operators.
fn decision(epoch: i64, operators: &[&str], partitions: usize) -> EpochDecision {
    let operator = |name: &&str| {
        let name = OperatorName::new(*name).expect("a name");
        (name, vec![PartitionDecision::default(); partitions])
    };
    EpochDecision {
        epoch: Epoch(epoch),
        rewind: RunNumber(0),
        run: Some(RunNumber::FIRST),
        offsets: Digest::ZERO,
        sources_idle_since: None,
        operators: operators.iter().map(operator).collect(),
    }
}

fn id(partition: i32, epoch: i64) -> SnapshotId {
    let operator = OperatorName::new("join").expect("a name");
    SnapshotId {
        operator,
        partition: PartitionId(partition),
        epoch: Epoch(epoch),
        chain: Digest::of(b"chain"),
        term: Term::first(RunNumber(1)),
    }
}

/// Puts a snapshot of a database with one file; returns the file's object.
fn put(root: &Root, partition: i32, epoch: i64) -> String {
    put_as(root, &id(partition, epoch))
}

fn put_as(root: &Root, id: &SnapshotId) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("CURRENT"), format!("epoch {}", id.epoch)).expect("writes");
    root.snapshots
        .put(id, folder.path(), &mut KnownDigests::new())
        .expect("puts");
    root.snapshots.files(id).expect("reads").concat()
}

/// Puts the heads of an operator's partitions in these epochs.
fn put_heads(root: &Root, run: RunNumber, epochs: Range<i64>, (operator, partitions): (&str, i32)) {
    for epoch in epochs {
        for partition in 0..partitions {
            let epoch = names::epoch(Epoch(epoch));
            let name = format!("{epoch}/{operator}.{partition}.{run}");
            root.objects.put_absent(&name, b"x").expect("puts");
        }
    }
}

#[test]
fn a_host_that_stalls_does_not_remove_files_of_the_next_owners_snapshot() {
    let (objects, root, run) = root();
    let term = acquire(&root, run);
    (1..4).for_each(|epoch| drop(put(&root, 0, epoch)));
    // The next owner's snapshot, put through another root.
    let (_, other, _) = self::root();
    let file = put(&other, 0, 4);
    let copy = |name: &str| {
        ConcurrentChange::Puts(
            name.to_owned(),
            other
                .objects
                .get(name)
                .expect("reads")
                .expect("exists")
                .to_vec(),
        )
    };
    let claim = Term {
        generation: Generation(term.generation.0 + 1),
        ..term
    };
    let next = names::owner(&id(0, 0).operator, PartitionId(0), claim);
    let comes = vec![
        ConcurrentChange::Puts(next, b"{}".to_vec()),
        copy(&file),
        copy(&names::snapshot(&id(0, 4))),
    ];
    objects.before(
        &names::snapshot_files(&id(0, 0).operator, PartitionId(0)),
        comes,
    );
    let result = root.garbage.retain_newest(&id(0, 3), 2);
    assert!(
        root.objects.exists(&file).expect("looks"),
        "the next owner's snapshot has lost its file"
    );
    assert_eq!(
        result.expect_err("it is the next owner's now").kind(),
        ErrorKind::StoreClosed
    );
}

#[test]
fn a_file_that_is_removed_while_a_snapshot_is_put_is_put_again() {
    let (objects, root, _) = root();
    let file = put(&root, 0, 1);
    // The same database again: its file exists when it is checked, and is removed before the
    // manifest is put.
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("CURRENT"), "epoch 1").expect("writes");
    objects.before(
        &names::snapshot(&id(0, 2)),
        vec![ConcurrentChange::Removes(file.clone())],
    );
    let moved = root
        .snapshots
        .put(&id(0, 2), folder.path(), &mut KnownDigests::new())
        .expect("puts");
    assert_eq!(
        (moved.copied, root.objects.exists(&file).expect("looks")),
        (0, true)
    );
}

#[test]
fn snapshot_of_a_superseded_run_is_complete() {
    let (objects, root, _) = root();
    let file = put(&root, 0, 1);
    root.runs.claim("q", "b", Epoch(0)).expect("claims");
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("CURRENT"), "epoch 1").expect("writes");
    objects.before(
        &names::snapshot(&id(0, 2)),
        vec![ConcurrentChange::Removes(file.clone())],
    );
    let put = root
        .snapshots
        .put(&id(0, 2), folder.path(), &mut KnownDigests::new());
    assert_eq!(put.expect_err("a newer run").kind(), ErrorKind::Fenced);
    assert!(root.snapshots.files(&id(0, 2)).is_ok());
    assert!(root.objects.exists(&file).expect("looks"));
}

#[test]
fn a_later_snapshot_from_before_a_rewind_does_not_count() {
    let (_, root, run) = root();
    acquire(&root, run);
    [1, 2, 8, 9]
        .iter()
        .for_each(|epoch| drop(put(&root, 0, *epoch)));
    root.garbage.retain_newest(&id(0, 2), 2).expect("its own");
    let remaining: Vec<i64> = root
        .snapshots
        .list(&id(0, 0).operator, PartitionId(0))
        .expect("lists")
        .iter()
        .map(|id| id.epoch.0)
        .collect();
    assert_eq!(remaining, [9, 8, 2, 1]);
}

#[test]
fn the_check_of_a_log_that_cannot_be_trimmed_takes_one_request() {
    const PARTITIONS: i32 = 8;
    let (objects, root, run) = root();
    put_heads(&root, run, 0..20, ("join", PARTITIONS));
    let requests = |newest: i64, retain: i64| {
        let before = objects.requests();
        let removed = root
            .garbage
            .trim_log(
                &decision(newest, &["join"], PARTITIONS as usize),
                run,
                retention(retain),
            )
            .expect("looks");
        (removed, objects.requests() - before)
    };
    assert_eq!(requests(19, 100), (0, 1));
    // The search ends at the first partition with fewer than two snapshots.
    assert_eq!(requests(19, 5), (0, 2));
    for partition in 0..PARTITIONS {
        [10, 12, 99]
            .iter()
            .for_each(|epoch| drop(put(&root, partition, *epoch)));
    }
    // Requests: the log, each partition, the followers twice, the mark, the next run, the log
    // again, each removed epoch, and the marks.
    assert_eq!(
        requests(19, 5),
        (10, 7 + PARTITIONS as usize + 10),
        "the snapshot of epoch 99 does not count"
    );
    let now = Instant::now();
    let due = |seconds| {
        root.garbage
            .is_trim_due(now + Duration::from_secs(seconds), Duration::from_secs(10))
    };
    assert_eq!(
        [due(0), due(1), due(9), due(10), due(19)],
        [true, false, false, true, false]
    );
}

#[test]
fn the_log_remains_while_an_operator_has_too_few_snapshots() {
    // By name, the first one comes before "join", and the second one after it.
    for other in ["count", "total"] {
        let (_, root, run) = root();
        for operator in ["join", other] {
            put_heads(&root, run, 0..20, (operator, 1));
        }
        [17, 18].iter().for_each(|at| drop(put(&root, 0, *at)));
        let put_other = |epoch| {
            let operator = OperatorName::new(other).expect("a name");
            put_as(
                &root,
                &SnapshotId {
                    operator,
                    ..id(0, epoch)
                },
            )
        };
        let trim = || {
            let newest = decision(19, &["join", other], 1);
            let removed = root.garbage.trim_log(&newest, run, retention(5));
            let epochs = root.log.epochs().expect("lists");
            (removed.expect("trims"), epochs.len())
        };
        assert_eq!(trim(), (0, 20), "{other} has no snapshot");
        put_other(12);
        assert_eq!(trim(), (0, 20), "{other} has one snapshot");
        put_other(9);
        assert_eq!(trim(), (9, 11), "{other} needs the log from epoch 9 on");
    }
}

#[test]
fn the_log_before_a_snapshot_of_a_skipped_epoch_is_removed() {
    let (_, root, run) = root();
    put_heads(&root, run, 0..19, ("join", 1));
    [17, 19].iter().for_each(|at| drop(put(&root, 0, *at)));
    let before = decision(18, &["join"], 1);
    let skipped = EpochDecision::skipped(Epoch(19), RunNumber(0), Digest::ZERO, Some(&before));
    let removed = root.garbage.trim_log(&skipped, run, retention(5));
    assert_eq!(removed.expect("trims"), 14);
}

#[test]
fn the_log_remains_for_a_follower_until_its_lag_is_too_long() {
    let (_, root, run) = root();
    put_heads(&root, run, 0..20, ("join", 1));
    [17, 18].iter().for_each(|at| drop(put(&root, 0, *at)));
    let trim = || {
        root.garbage
            .trim_log(&decision(19, &["join"], 1), run, retention(5))
            .expect("trims");
        let epochs = root.log.epochs().expect("lists");
        epochs.into_iter().min().map(|epoch| epoch.0)
    };
    let follower = |name: &str, first: i64| {
        let name = FollowerName::new(name).expect("a good name");
        root.followers.put(&name, Epoch(first)).expect("puts");
    };
    // At most 12 epochs behind epoch 19.
    follower("dead", 0);
    follower("slow", 9);
    assert_eq!(trim(), Some(7));
    let dead = FollowerName::new("dead").expect("a good name");
    root.followers.remove(&dead).expect("removes");
    assert_eq!(trim(), Some(9));
    follower("slow", 12);
    assert_eq!(trim(), Some(12));
    // The follower's epoch is later than those that remain anyway, for example after a rewind.
    follower("slow", 30);
    assert_eq!(trim(), Some(14));
}
