//! Loss of power at any moment: the database then holds one whole commit, which is not older than
//! the last durable one.

use holdfast_core::{Database, DatabaseOptions, Durability};
use holdfast_proof::{
    Faults, Operation, RunProgress, Runner, StepError, UnsyncedBytes, World, directory, generator,
    rounds, runner, spilled,
};
use std::path::Path;
use std::sync::Arc;

/// Consecutive losses of power of one database.
const LOSSES_EACH: u64 = 4;

/// Runs transactions until the power is lost; returns the progress.
fn work(
    path: &Path,
    options: &DatabaseOptions,
    world: &World,
    faults: &Faults,
    seed: u64,
) -> RunProgress {
    let mut progress = RunProgress::start(world.n());
    let mut note = |note| progress.note(note);
    let stopped = Runner::open(path, options.clone(), world.copy(), seed, &mut note).and_then(
        |mut runner| {
            loop {
                runner.step()?;
            }
        },
    );
    match stopped {
        Ok(never) => never,
        Err(StepError::Store(_)) if !faults.powered() => progress,
        Err(fault) => panic!("seed {seed}: before the power loss: {fault}"),
    }
}

/// Runs one database through several losses of power.
fn lose_power(seed: u64) {
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
    for loss in 0..LOSSES_EACH {
        // With few operations the power is lost while the database opens or recovers, with many
        // while it works.
        let operations = 1 << rng.u32(2..12);
        faults.power_off_after(rng.u64(..operations));
        let progress = work(&path, &options, &world, &faults, seed * 1_000 + loss);
        let unsynced = [
            UnsyncedBytes::Nothing,
            UnsyncedBytes::Part,
            UnsyncedBytes::All,
        ][rng.usize(..3)];
        let entries = rng.bool();
        faults.lose(&path, unsynced, entries, rng.u64(..));
        let context = format!(
            "seed {seed}, loss {loss}, {durability:?}, unsynced bytes kept: {unsynced:?}, entries \
             lost: {entries}, {progress:?}"
        );

        let db = Database::open(&path, &world.specs(), options.clone())
            .unwrap_or_else(|e| panic!("{context}: {:?} {e}", e.kind()));
        let n = World::transaction_of(&db).unwrap_or_else(|e| panic!("{context}: {e}"));
        assert!(
            progress.durable <= n && n <= progress.attempting,
            "{context}: the database stands at {n}"
        );
        world.advance_to(n);
        world.lose_after_stop(&db, &progress);
        world
            .check(&db)
            .unwrap_or_else(|e| panic!("{context}: at {n}: {e}"));
        // Half of the time the next round opens the files as the recovery left them, without a
        // close.
        let cleanly = rng.bool();
        world.lose(cleanly);
        if cleanly {
            db.close().unwrap_or_else(|e| panic!("{context}: {e}"));
        } else if durability == Durability::Changelog {
            db.flush(true).unwrap_or_else(|e| panic!("{context}: {e}"));
        }
    }
}

#[test]
fn power_loss_leaves_one_whole_commit() {
    let first = rounds("POWER_SEED", 1);
    let losses = rounds("POWER_LOSSES", 100);
    for seed in first..first + losses.div_ceil(LOSSES_EACH) {
        lose_power(seed);
    }
}

/// Makes a database with one spilled commit and the spilled rows of the next.
fn before_second_commit(path: &Path, options: &DatabaseOptions) -> Arc<Database> {
    let db = Database::open(path, &spilled::specs(), options.clone()).expect("a new database");
    spilled::spill(&db, 1)
        .and_then(|()| spilled::commit(&db, 1))
        .and_then(|()| spilled::spill(&db, 2))
        .expect("the power is on");
    db
}

/// Loses the power before each write and sync of a spilled commit in turn.
fn lose_power_in_a_commit(
    durability: Durability,
    unsynced: UnsyncedBytes,
    entries: bool,
    seed: u64,
) {
    for after in 0.. {
        let context = format!(
            "before write or sync {after} of the commit, {durability:?}, unsynced bytes kept: \
             {unsynced:?}, entries lost: {entries}, seed {seed}"
        );
        let (faults, dir) = (
            Faults::default(),
            directory().expect("a temporary directory"),
        );
        let options = DatabaseOptions {
            environment: Some(faults.environment()),
            ..runner::options(durability)
        };
        let db = before_second_commit(dir.path(), &options);
        faults.power_off_after(after);
        let committed = spilled::commit(&db, 2).is_ok();
        let ended = faults.powered();
        faults.power_off();
        drop(db);
        faults.lose(dir.path(), unsynced, entries, seed);
        let db = Database::open(dir.path(), &spilled::specs(), options)
            .unwrap_or_else(|e| panic!("{context}: {:?} {e}", e.kind()));
        let n = spilled::last_commit(&db).unwrap_or_else(|e| panic!("{context}: {e}"));
        assert!(
            n == 2 || !committed && n == 1,
            "{context}: the database stands at {n}"
        );
        if ended {
            // A commit has about 60; RocksDB's background writes vary.
            assert!(
                committed && after > 30,
                "{context}: ended without a loss of power"
            );
            break;
        }
    }
}

#[test]
fn power_loss_at_each_step_of_a_spilled_commit_keeps_it_whole() {
    // The seed decides whether the commit file's name is lost with those of RocksDB's files.
    lose_power_in_a_commit(Durability::Sync, UnsyncedBytes::Nothing, true, 0);
    lose_power_in_a_commit(Durability::Sync, UnsyncedBytes::Nothing, true, 1);
    if rounds("POWER_LOSSES", 100) > 100 {
        for (unsynced, entries) in [
            (UnsyncedBytes::Nothing, false),
            (UnsyncedBytes::Part, false),
            (UnsyncedBytes::Part, true),
            (UnsyncedBytes::All, true),
        ] {
            lose_power_in_a_commit(Durability::Sync, unsynced, entries, 2);
            lose_power_in_a_commit(Durability::Changelog, unsynced, entries, 3);
        }
    }
}

/// What happened to a spilled commit whose n-th sync failed, and to its rollback.
#[derive(Default)]
struct FailedSync {
    /// The commit did not reach its n-th sync.
    committed: bool,
    /// The failed commit left a commit file, so the rollback finishes the commit.
    commit_file: bool,
    /// The power was on until the end of the rollback.
    powered: bool,
}

/// Fails sync `n` of a spilled commit. Then loses the power before write or sync `k` of the
/// rollback. The name of the commit file is lost too, unless it was synced.
fn lose_power_in_a_rollback(n: u64, k: u64) -> FailedSync {
    let (faults, dir) = (
        Faults::default(),
        directory().expect("a temporary directory"),
    );
    let options = DatabaseOptions {
        environment: Some(faults.environment()),
        ..runner::options(Durability::Sync)
    };
    let db = before_second_commit(dir.path(), &options);
    faults.fail(Operation::Sync, n, false);
    let committed = spilled::commit(&db, 2).is_ok();
    faults.heal();
    if committed {
        return FailedSync {
            committed,
            ..FailedSync::default()
        };
    }
    let commit_file = dir.path().join("+commit").join("COMMIT").exists();
    faults.power_off_after(k);
    // After some failed syncs RocksDB accepts writes only after another open.
    let _ = db.rollback();
    let powered = faults.powered();
    faults.power_off();
    drop(db);
    faults.lose(dir.path(), UnsyncedBytes::Nothing, true, 0);
    let context = format!("sync {n} failed, power lost before write or sync {k} of the rollback");
    let db = Database::open(dir.path(), &spilled::specs(), options)
        .unwrap_or_else(|e| panic!("{context}: {:?} {e}", e.kind()));
    spilled::last_commit(&db).unwrap_or_else(|e| panic!("{context}: {e}"));
    FailedSync {
        committed,
        commit_file,
        powered,
    }
}

#[test]
fn power_loss_in_a_rollback_keeps_an_interrupted_commit_whole() {
    let mut finished = 0;
    for n in 0.. {
        let found = lose_power_in_a_rollback(n, 0);
        if found.committed {
            break;
        }
        // Without a commit file the rollback only removes files.
        if !found.commit_file {
            continue;
        }
        finished += 1;
        for k in 1.. {
            if lose_power_in_a_rollback(n, k).powered {
                break;
            }
        }
    }
    assert!(finished > 0, "no commit file was left");
}
