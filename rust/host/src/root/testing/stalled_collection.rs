//! A host stalls between the check and the removals of a garbage collection, while the query is
//! rewound.
//!
//! Either the rewind is refused, or the removals do not damage the rewound state.

use std::fs;
use std::thread;

use holdfast_core::{ErrorKind, Result};

use super::faults::{PARTITIONS, Trial, decided, run};
use super::faulty_store::{ConcurrentChange, Fault};
use crate::protocol::{Digest, Epoch, HostId, OperatorName, Owner, PartitionId, RunNumber, Term};
use crate::root::names;
use crate::root::{KnownDigests, LogRetention, Ownership, OwnershipRequest, Root, SnapshotId};

const EPOCHS: i64 = 9;
const RUN: RunNumber = RunNumber(1);
const RETENTION: LogRetention = LogRetention {
    epochs: 2,
    snapshots: 2,
    follower_lag: 0,
};

fn join() -> OperatorName {
    OperatorName::new("join").expect("a name")
}

fn partitions() -> impl Iterator<Item = PartitionId> {
    (0..PARTITIONS.cast_signed()).map(PartitionId)
}

fn id(partition: PartitionId, epoch: i64, run: RunNumber) -> SnapshotId {
    SnapshotId {
        operator: join(),
        partition,
        epoch: Epoch(epoch),
        chain: Digest::of(b"chain"),
        term: Term::first(run),
    }
}

/// Puts snapshots of these epochs, of all partitions.
fn put_all<const N: usize>(root: &Root, epochs: [i64; N], run: RunNumber) {
    for partition in partitions() {
        for epoch in epochs {
            put(root, partition, epoch, run);
        }
    }
}

/// Puts a snapshot with one file, whose content is the epoch.
fn put(root: &Root, partition: PartitionId, epoch: i64, run: RunNumber) {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("CURRENT"), epoch.to_string()).expect("writes");
    let id = id(partition, epoch, run);
    root.snapshots
        .put(&id, folder.path(), &mut KnownDigests::new())
        .expect("puts");
}

/// Trims the log after a snapshot of the last epoch.
fn trim_log(root: &Root) -> Result<usize> {
    let decision = root.decisions.recorded(Epoch(EPOCHS - 1))?;
    root.garbage
        .trim_log(&decision.expect("is decided"), RUN, RETENTION)
}

/// Restores the state after `epoch` as a host with an empty disk does: from the newest snapshot
/// that is whole, and the log after it.
fn restore(root: &Root, epoch: i64) -> Result<()> {
    for partition in partitions() {
        let folder = tempfile::tempdir().expect("a folder");
        let whole = |id: &SnapshotId| {
            let copy = folder.path().join(id.epoch.to_string());
            id.epoch <= Epoch(epoch) && root.snapshots.fetch(id, &copy, &|_| ()).is_ok()
        };
        let base = root
            .snapshots
            .list(&join(), partition)?
            .into_iter()
            .find(whole);
        let first = base.map_or(0, |id| id.epoch.0 + 1);
        (first..=epoch).try_for_each(|at| decided(root, Epoch(at), partition.0).map(drop))?;
    }
    Ok(())
}

/// A query that has computed and decided some epochs; the host owns all partitions.
fn query() -> Trial {
    let mut trial = Trial::new(Fault::None);
    compute(&mut trial, "b", 0..EPOCHS);
    trial
}

fn compute(trial: &mut Trial, id: &str, epochs: std::ops::Range<i64>) -> RunNumber {
    let (meta, last) = (
        br#"{"kind":"k","key":[],"settings":{},"stores":[],"first_epoch":0}"#,
        epochs.end - 1,
    );
    let run = run(trial, id, epochs);
    let root = &trial.root;
    root.objects
        .put_absent(&names::operator(&join()), meta)
        .expect("puts");
    decided(root, Epoch(last), 0).expect("is decided");
    own(root, run, "one");
    run
}

/// Makes a host the owner of all partitions; no other host can be reached.
fn own(root: &Root, run: RunNumber, host: &str) {
    let host = Owner {
        term: Term::first(run),
        host: HostId(host.to_owned()),
        endpoint: None,
        application: None,
    };
    let others = ["one", "two"].map(|other| HostId(other.to_owned()));
    let unreachable = others
        .into_iter()
        .filter(|other| *other != host.host)
        .map(|other| (other, "it stalls".to_owned()))
        .collect();
    for partition in partitions() {
        let request = OwnershipRequest {
            operator: &join(),
            partition,
            run,
            host: &host,
            unreachable: &unreachable,
            restored: None,
        };
        let owned = root.owners.acquire(&request).expect("acquires");
        assert!(matches!(owned, Ownership::Held(_)), "{owned:?}");
    }
}

/// Runs `collect`, which stalls at a removal in `place`, and meanwhile `work` on another host.
fn stall<T>(
    trial: &Trial,
    place: &str,
    collect: impl FnOnce(&Root) -> Result<()> + Send,
    work: impl FnOnce(&mut Trial) -> T,
) -> T {
    let stall = trial.store.stall_removal(place);
    thread::scope(|scope| {
        let collection = scope.spawn(|| collect(&trial.root));
        stall.wait();
        let done = work(&mut trial.other_host());
        stall.resume();
        collection
            .join()
            .expect("does not panic")
            .expect("the check came before the rewind");
        done
    })
}

/// Returns whether a rewind during the stall is refused. If it is not, checks that the rewound
/// state is whole.
fn is_refused(
    epoch: i64,
    trial: &Trial,
    place: &str,
    collect: impl FnOnce(&Root) -> Result<()> + Send,
) -> bool {
    match stall(trial, place, collect, |other| {
        other.root.rewind(Epoch(epoch))
    }) {
        Ok(_) => {
            restore(&trial.other_host().root, epoch - 1).expect("the rewound state is whole");
            false
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Restore, "{error}");
            let text = error.to_string();
            assert!(text.contains("is being removed"), "{text}");
            true
        }
    }
}

#[test]
fn a_rewind_does_not_use_a_snapshot_that_a_stalled_host_removes() {
    for (epoch, refused) in [(5, true), (7, false)] {
        let trial = query();
        put_all(&trial.root, [3, 6, 8], RUN);
        trial
            .root
            .log
            .remove_before(Epoch(3), RUN)
            .expect("removes");
        let (old, newest) = (id(PartitionId(0), 3, RUN), id(PartitionId(0), 8, RUN));
        let collect = |root: &Root| root.garbage.retain_newest(&newest, 2);
        let is_refused = is_refused(epoch, &trial, &names::snapshot(&old), collect);
        assert_eq!(is_refused, refused, "epoch {epoch}");
    }
}

#[test]
fn a_rewind_does_not_use_a_snapshot_that_a_stalled_host_discards() {
    let trial = query();
    put_all(&trial.root, [3], RUN);
    trial
        .root
        .log
        .remove_before(Epoch(3), RUN)
        .expect("removes");
    let damaged = id(PartitionId(1), 3, RUN);
    let discard = |root: &Root| root.garbage.discard(&damaged, RUN);
    assert!(is_refused(5, &trial, &names::snapshot(&damaged), discard));
}

#[test]
fn a_rewind_does_not_use_a_log_that_a_stalled_host_removes() {
    for (epoch, refused) in [(5, true), (7, false)] {
        let trial = query();
        put_all(&trial.root, [3, 6, 8], RUN);
        let trim = |root: &Root| {
            assert_eq!(trim_log(root)?, 6);
            Ok(())
        };
        let is_refused = is_refused(epoch, &trial, &names::epoch(Epoch(0)), trim);
        assert_eq!(is_refused, refused, "epoch {epoch}");
    }
}

#[test]
fn a_stalled_host_does_not_remove_the_log_of_the_run_after_a_rewind() {
    let trial = query();
    put_all(&trial.root, [6, 8], RUN);
    let trim = |root: &Root| trim_log(root).map(drop);
    stall(&trial, &names::epoch(Epoch(0)), trim, |other| {
        other.root.rewind(Epoch(0)).expect("needs no state");
        compute(other, "c", 0..EPOCHS)
    });
    restore(&trial.other_host().root, EPOCHS - 1).expect("the log is whole");
}

#[test]
fn a_stalled_host_does_not_remove_snapshots_of_the_run_after_a_rewind() {
    let trial = query();
    put_all(&trial.root, [1, 3, 6, 8], RUN);
    let (old, newest) = (id(PartitionId(0), 3, RUN), id(PartitionId(0), 8, RUN));
    let collect = |root: &Root| root.garbage.retain_newest(&newest, 2);
    stall(&trial, &names::snapshot(&old), collect, |other| {
        other.root.rewind(Epoch(0)).expect("needs no state");
        // The snapshots of the new run have the same state and the same files.
        let run = compute(other, "c", 0..EPOCHS);
        put_all(&other.root, [1, 3], run);
        other
            .root
            .log
            .remove_before(Epoch(1), run)
            .expect("removes");
    });
    restore(&trial.other_host().root, EPOCHS - 1).expect("the snapshots are whole");
}

#[test]
fn a_stalled_host_does_not_remove_files_of_the_next_owners_snapshots() {
    let (trial, partition) = (query(), PartitionId(0));
    put_all(&trial.root, [3, 6, 8], RUN);
    let (old, newest) = (id(partition, 3, RUN), id(partition, 8, RUN));
    let collect = |root: &Root| root.garbage.retain_newest(&newest, 2);
    let later = stall(&trial, &names::snapshot(&old), collect, |other| {
        own(&other.root, RUN, "two");
        let term = other.root.owners.last_held(&join(), partition, RUN);
        let later = SnapshotId {
            epoch: Epoch(9),
            term: term.expect("is the owner"),
            ..old.clone()
        };
        // The first file is in the snapshot that the stalled host removes, the other in epoch 8's.
        let folder = tempfile::tempdir().expect("a folder");
        for epoch in ["3", "8"] {
            fs::write(folder.path().join(epoch), epoch).expect("writes");
        }
        let put = other
            .root
            .snapshots
            .put(&later, folder.path(), &mut KnownDigests::new())
            .expect("puts");
        assert_eq!((put.files, put.copied), (2, 1));
        later
    });
    let copy = tempfile::tempdir().expect("a folder");
    let root = &trial.other_host().root;
    root.snapshots
        .fetch(&later, &copy.path().join("copy"), &|_| ())
        .expect("is whole");
}

#[test]
fn a_stalled_host_removes_nothing_if_another_host_owned_the_partition_meanwhile() {
    let (trial, partition) = (query(), PartitionId(0));
    put_all(&trial.root, [3, 6, 8], RUN);
    let newest = id(partition, 8, RUN);
    own(&trial.other_host().root, RUN, "two");
    own(&trial.root, RUN, "one");
    let root = &trial.root;
    let refused = root
        .garbage
        .retain_newest(&newest, 2)
        .expect_err("the term has ended");
    assert_eq!(refused.kind(), ErrorKind::StoreClosed, "{refused}");
    let snapshots = root.snapshots.list(&join(), partition).expect("lists");
    assert_eq!(snapshots.len(), 3);
    let term = root.owners.held(&join(), partition, RUN).expect("held");
    root.owners
        .check(&join(), partition, term)
        .expect("owns it in this term");
}

/// A removal of old objects.
type Collect<'a> = &'a dyn Fn(&Root) -> Result<()>;

/// Puts the claim of a rewind right before the object `name` is put.
fn claim_before(trial: &Trial, name: &str) {
    let claim = br#"{"run_id":"holdfast rewind","first_epoch":5,"query_id":"q"}"#;
    let puts = ConcurrentChange::Puts(names::claim(RUN.next()), claim.to_vec());
    trial.store.before(name, vec![puts]);
}

#[test]
fn a_host_removes_nothing_if_a_rewind_came_before_its_marks() {
    let collects: [(&str, Collect<'_>); 3] = [
        (
            &names::snapshot_removal(&id(PartitionId(0), 3, RUN)),
            &|root| root.garbage.retain_newest(&id(PartitionId(0), 8, RUN), 2),
        ),
        (
            &names::snapshot_removal(&id(PartitionId(0), 8, RUN)),
            &|root| root.garbage.discard(&id(PartitionId(0), 8, RUN), RUN),
        ),
        (&names::trim(Epoch(6), RUN), &|root| {
            trim_log(root).map(drop)
        }),
    ];
    for (mark, collect) in collects {
        let trial = query();
        put_all(&trial.root, [3, 6, 8], RUN);
        claim_before(&trial, mark);
        let error = collect(&trial.root).expect_err("a newer run exists");
        assert_eq!(error.kind(), ErrorKind::Fenced, "{mark}: {error}");
        let snapshots = trial.root.snapshots.list(&join(), PartitionId(0));
        assert_eq!(snapshots.expect("lists").len(), 3, "{mark}");
        let epochs = trial.root.log.epochs().expect("lists").len();
        assert_eq!(epochs as i64, EPOCHS, "{mark}");
    }
}

#[test]
fn marks_of_hosts_that_ended_are_removed_and_their_snapshots_are_not_counted() {
    let trial = query();
    let (root, partition) = (&trial.root, PartitionId(0));
    put_all(root, [1, 3, 6, 8], RUN);
    let mark = |epoch| {
        root.snapshots
            .mark_removal(&id(partition, epoch, RUN))
            .expect("marks")
    };
    // The snapshot of epoch 0 is gone, the one of epoch 6 is not.
    [0, 6].iter().for_each(|epoch| mark(*epoch));
    [2, 5].iter().for_each(|before| {
        root.log.mark_trim(Epoch(*before), RUN).expect("marks");
    });
    let trimmed = trim_log(root).expect("trims");
    assert_eq!(trimmed, 3, "the snapshot of epoch 6 does not count");
    root.garbage
        .retain_newest(&id(partition, 8, RUN), 2)
        .expect("collects");
    let found = root.snapshots.of_partition(&join(), partition);
    let found = found.expect("lists");
    let epochs: Vec<i64> = found.all().iter().map(|id| id.epoch.0).collect();
    assert_eq!((epochs, found.marked().len()), (vec![8, 3], 0));
    // The mark of the epochs before 5 covers more than this host has removed.
    let trims = root.objects.list(names::TRIMS).expect("lists");
    assert_eq!(trims, [format!("{:020}.{RUN}", 5)]);
    let whole = |epoch| root.log.has_whole(Epoch(epoch)).expect("lists");
    assert_eq!([2, 4, 5].map(whole), [false, false, true]);
}
