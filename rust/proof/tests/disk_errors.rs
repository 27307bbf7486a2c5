//! A disk that refuses a read, a write or a sync, once or until it is repaired. The call returns an
//! error, nothing of it is committed, and after a rollback or a reopen the state is as before. One
//! exception: a spilled commit whose commit file was written is completed.

use holdfast_core::{Database, DatabaseOptions, Durability, ErrorKind};
use holdfast_proof::{
    Faults, Note, Operation, RunProgress, Runner, StepError, UnsyncedBytes, World, directory,
    generator, rounds, runner, spilled,
};
use std::path::Path;

/// Consecutive errors in one database.
const ERRORS_EACH: u64 = 4;

/// Counts of the results of errors.
#[derive(Debug, Default)]
struct Counts {
    refused: u64,
    unnoticed: u64,
    went_on: u64,
    came_back: u64,
}

fn refuse(seed: u64, counts: &mut Counts) {
    let mut rng = generator(seed, 0);
    let faults = Faults::default();
    let durability = if rng.bool() {
        Durability::Sync
    } else {
        Durability::Changelog
    };
    let options = DatabaseOptions {
        environment: Some(faults.environment()),
        ..runner::options(durability)
    };
    let dir = directory().expect("a temporary directory");
    let path = dir.path().join("database");
    let mut world = World::new(seed);
    for error in 0..ERRORS_EACH {
        let operation = [Operation::Read, Operation::Write, Operation::Sync][rng.usize(..3)];
        let (within, keeps_failing) = (1 << rng.u32(1..9), rng.bool());
        let after = rng.u64(..within);
        let context = format!(
            "ERROR_SEED={seed}, error {error}: {operation:?} {after} from here, again and again: \
             {keeps_failing}; {durability:?}"
        );
        let mut progress = RunProgress::start(world.n());
        let mut note = |note| progress.note(note);
        let (failed_before, refused_before) = (faults.failed(), counts.refused);
        // A quarter of the errors may occur while the database opens.
        let at_open = rng.u8(..4) == 0;
        if at_open {
            faults.fail(operation, after, keeps_failing);
        }
        let refused = |fault: StepError, what: &str| match fault {
            StepError::Store(e)
                if matches!(
                    e.kind(),
                    ErrorKind::Io | ErrorKind::StoreClosed | ErrorKind::InvalidState
                ) => {}
            fault => panic!("{context}: {what}: {fault}"),
        };
        let mut left = None;
        match Runner::open(
            &path,
            options.clone(),
            world.copy(),
            seed * 1_000 + error,
            &mut note,
        ) {
            Err(fault) => {
                refused(fault, "opening");
                counts.refused += 1;
            }
            Ok(mut runner) => {
                if !at_open {
                    faults.fail(operation, after, keeps_failing);
                }
                let stopped = (0..rng.u64(20..80)).try_for_each(|_| runner.step());
                faults.heal();
                match stopped {
                    Ok(()) => counts.unnoticed += 1,
                    Err(fault) => {
                        refused(fault, "working");
                        counts.refused += 1;
                        // After a rollback that succeeds, the state before the failed call is
                        // readable at once.
                        let open = match runner.db().rollback() {
                            Ok(()) => {
                                if World::transaction_of(runner.db())
                                    .is_ok_and(|n| n > runner.world.n())
                                {
                                    // A spilled transaction whose commit file was written is
                                    // committed.
                                    runner.world.go_forward();
                                }
                                runner.world.check(runner.db()).unwrap_or_else(|e| {
                                    panic!("{context}: after the rollback: {e}")
                                });
                                true
                            }
                            // A failed close has closed the database: without a WAL this is like
                            // a crash.
                            Err(e) if e.kind() == ErrorKind::StoreClosed => false,
                            // RocksDB refuses writes until the next open, which also ends an
                            // interrupted commit.
                            Err(e) if e.kind() == ErrorKind::Io => false,
                            Err(e) => panic!("{context}: {e}"),
                        };
                        let open = open && runner.has_modes_of_models();
                        // RocksDB may refuse writes until the database is opened again.
                        let steps = if open { 5 } else { 0 };
                        // The first step must not begin with a reopen: the failed transaction may
                        // have written directly, and then a close before the next commit is
                        // unclean.
                        match (0..steps).try_for_each(|n| match n {
                            0 => runner.commit(),
                            _ => runner.step(),
                        }) {
                            Ok(()) if !open => {}
                            Ok(()) => {
                                runner
                                    .world
                                    .check(runner.db())
                                    .unwrap_or_else(|e| panic!("{context}: after the error: {e}"));
                                counts.went_on += 1;
                            }
                            Err(fault) => refused(fault, "going on"),
                        }
                    }
                }
                left = Some(runner.world.copy());
            }
        }
        assert!(
            faults.failed() > failed_before || counts.refused == refused_before,
            "{context}: refused without an error of the disk"
        );
        // The process ends and not the machine: written bytes survive.
        faults.lose(&path, UnsyncedBytes::All, false, seed);
        let db = Database::open(&path, &world.specs(), options.clone())
            .unwrap_or_else(|e| panic!("{context}: reopened: {:?} {e}", e.kind()));
        let n = World::transaction_of(&db).unwrap_or_else(|e| panic!("{context}: {e}"));
        let (durable, attempting) = (progress.durable, progress.attempting);
        assert!(
            durable <= n && n <= attempting,
            "{context}: the database stands at {n}, of {durable} durable and {attempting} attempted"
        );
        world.advance_to(n);
        // Direct writes of a failed transaction do not depend on the seed alone.
        if let Some(left) = left.filter(|left| !progress.open && left.n() == n) {
            world = left;
        }
        world.lose_after_stop(&db, &progress);
        world
            .check(&db)
            .unwrap_or_else(|e| panic!("{context}: reopened at {n}: {e}"));
        db.close().unwrap_or_else(|e| panic!("{context}: {e}"));
        world.lose(true);
        counts.came_back += 1;
    }
}

#[test]
fn disk_error_loses_nothing_and_commits_no_part() {
    let first = rounds("ERROR_SEED", 1);
    let mut counts = Counts::default();
    let seeds = rounds("DISK_ERRORS", 100).div_ceil(ERRORS_EACH);
    for seed in first..first + seeds {
        refuse(seed, &mut counts);
    }
    println!("disk errors: {counts:?}");
    assert!(
        counts.refused > seeds,
        "most of the errors did not occur: {counts:?}"
    );
}

/// Closes databases while the disk refuses all operations of one kind from the n-th one on, for
/// growing n; returns how many closes failed.
fn refuse_closes(durability: Durability, operation: Operation) -> u64 {
    let mut refused = 0;
    for after in [0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233] {
        let context = format!("{operation:?} {after} from the close on; {durability:?}");
        let faults = Faults::default();
        let options = DatabaseOptions {
            environment: Some(faults.environment()),
            ..runner::options(durability)
        };
        let dir = directory().expect("a temporary directory");
        let path = dir.path().join("database");
        let mut progress = RunProgress::default();
        let mut note = |note| progress.note(note);
        let mut runner = Runner::open(&path, options.clone(), World::new(after), after, &mut note)
            .expect("a new database");
        (0..8)
            .try_for_each(|_| runner.step())
            .unwrap_or_else(|e| panic!("{context}: {e}"));
        let last = runner.world.n();
        faults.fail(operation, after, true);
        let closed = runner.db().close();
        let met = faults.failed() > 0;
        faults.heal();
        let is_refused = closed.is_err();
        if let Err(error) = closed {
            assert_eq!(error.kind(), ErrorKind::Io, "{context}: {error}");
            let says = match durability {
                Durability::Sync => "no commit is lost",
                Durability::Changelog => "the changelog restores the later ones",
            };
            assert!(error.to_string().contains(says), "{context}: {error}");
            refused += 1;
        }
        runner
            .db()
            .close()
            .unwrap_or_else(|e| panic!("{context}: closed again: {e}"));
        let error = runner.db().begin().err().map(|e| e.kind());
        assert_eq!(error, Some(ErrorKind::StoreClosed), "{context}");
        drop(runner);
        // The stop may count as clean or not: the close may have removed the marker of an open
        // database already.
        progress.note(Note::Closing);
        faults.lose(&path, UnsyncedBytes::All, false, after);
        let mut world = World::new(after);
        let db = Database::open(&path, &world.specs(), options)
            .unwrap_or_else(|e| panic!("{context}: reopened: {e}"));
        let n = World::transaction_of(&db).unwrap_or_else(|e| panic!("{context}: {e}"));
        let least = if is_refused { progress.durable } else { last };
        assert!(
            least <= n && n <= last,
            "{context}: the database stands at {n}, of {least} durable and {last} attempted"
        );
        world.advance_to(n);
        if is_refused {
            world.lose_after_stop(&db, &progress);
        } else {
            world.lose(true);
        }
        world
            .check(&db)
            .unwrap_or_else(|e| panic!("{context}: reopened at {n}: {e}"));
        if !met {
            break;
        }
    }
    refused
}

#[test]
fn refused_close_is_an_error_and_loses_nothing() {
    for durability in [Durability::Sync, Durability::Changelog] {
        for operation in [Operation::Write, Operation::Sync] {
            let refused = refuse_closes(durability, operation);
            assert!(
                refused > 1,
                "{durability:?}, {operation:?}: {refused} closes were refused"
            );
        }
    }
}

/// Runs a spilled commit with an error of the disk, then stops as if the process ended; returns
/// whether the commit succeeded.
fn refused_commit(
    path: &Path,
    options: &DatabaseOptions,
    faults: &Faults,
    (operation, after, keeps_failing): (Operation, u64, bool),
) -> bool {
    let db = Database::open(path, &spilled::specs(), options.clone()).expect("a new database");
    spilled::spill(&db, 1)
        .and_then(|()| spilled::commit(&db, 1))
        .and_then(|()| spilled::spill(&db, 2))
        .expect("nothing fails yet");
    faults.fail(operation, after, keeps_failing);
    let committed = spilled::commit(&db, 2).is_ok();
    faults.heal();
    if after % 2 == 1 && db.rollback().is_ok() {
        let n = spilled::last_commit(&db).expect("after the rollback");
        assert!(
            n == 2 || !committed && n == 1,
            "the rolled back database stands at {n}"
        );
    }
    drop(db);
    faults.lose(path, UnsyncedBytes::All, false, after);
    committed
}

/// Refuses each write or sync of a spilled commit in turn. Returns the number of the last operation
/// whose refusal made the commit return an error although it took effect.
fn refuse_commits(durability: Durability, operation: Operation, keeps_failing: bool) -> u64 {
    let mut forward = None;
    for after in 0.. {
        let context = format!(
            "{operation:?} {after} of the commit, again and again: {keeps_failing}; {durability:?}"
        );
        let (faults, dir) = (
            Faults::default(),
            directory().expect("a temporary directory"),
        );
        let options = DatabaseOptions {
            environment: Some(faults.environment()),
            ..runner::options(durability)
        };
        let committed = refused_commit(
            dir.path(),
            &options,
            &faults,
            (operation, after, keeps_failing),
        );
        let db = Database::open(dir.path(), &spilled::specs(), options)
            .unwrap_or_else(|e| panic!("{context}: {:?} {e}", e.kind()));
        let n = spilled::last_commit(&db).unwrap_or_else(|e| panic!("{context}: {e}"));
        assert!(
            n == 2 || !committed && n == 1,
            "{context}: the database stands at {n}"
        );
        if !committed && n == 2 {
            forward = Some(after);
        }
        if faults.failed() == 0 {
            return forward.unwrap_or_else(|| panic!("{context}: no commit went forward"));
        }
    }
    0
}

/// Interrupts a commit by an error, then refuses each write or sync of the open that completes it.
fn refuse_recoveries(durability: Durability, operation: Operation, at_commit: u64) {
    for after in 0.. {
        let context = format!(
            "{operation:?} {at_commit} of the commit and {after} of the open; {durability:?}"
        );
        let (faults, dir) = (
            Faults::default(),
            directory().expect("a temporary directory"),
        );
        let options = DatabaseOptions {
            environment: Some(faults.environment()),
            ..runner::options(durability)
        };
        refused_commit(dir.path(), &options, &faults, (operation, at_commit, true));
        let before = faults.failed();
        faults.fail(operation, after, true);
        match Database::open(dir.path(), &spilled::specs(), options.clone()) {
            Ok(db) => drop(db),
            Err(e) => assert_eq!(e.kind(), ErrorKind::Io, "{context}: {e}"),
        }
        faults.heal();
        faults.lose(dir.path(), UnsyncedBytes::All, false, after);
        let db = Database::open(dir.path(), &spilled::specs(), options)
            .unwrap_or_else(|e| panic!("{context}: {:?} {e}", e.kind()));
        assert_eq!(
            spilled::last_commit(&db).unwrap_or_else(|e| panic!("{context}: {e}")),
            2,
            "{context}"
        );
        if faults.failed() == before {
            break;
        }
    }
}

#[test]
fn refused_writes_and_syncs_of_a_spilled_commit_and_its_recovery_lose_nothing() {
    if rounds("DISK_ERRORS", 100) <= 100 {
        // All of them take a minute.
        refuse_commits(Durability::Sync, Operation::Sync, false);
        return;
    }
    for durability in [Durability::Sync, Durability::Changelog] {
        for operation in [Operation::Write, Operation::Sync] {
            refuse_commits(durability, operation, false);
            let at_commit = refuse_commits(durability, operation, true);
            refuse_recoveries(durability, operation, at_commit);
        }
    }
}
