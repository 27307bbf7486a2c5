//! A machine loses its power in the middle of anything: what was committed must be there, whole.

use holdfast_core::{Database, DatabaseOptions, Durability};
use holdfast_proof::{
    Fault, Faults, Kept, Reached, Runner, World, directory, generator, rounds, runner, spilled,
};
use std::path::Path;

/// Losses of one database, one after the other.
const LOSSES_EACH: u64 = 4;

/// Works until the power goes; how far it came.
fn work(
    path: &Path,
    options: &DatabaseOptions,
    world: &World,
    faults: &Faults,
    seed: u64,
) -> Reached {
    let mut reached = Reached::start(world.n());
    let mut note = |note| reached.note(note);
    let stopped = Runner::open(path, options.clone(), world.copy(), seed, &mut note).and_then(
        |mut runner| {
            loop {
                runner.step()?;
            }
        },
    );
    match stopped {
        Ok(never) => never,
        Err(Fault::Store(_)) if !faults.powered() => reached,
        Err(fault) => panic!("seed {seed}: before the power went: {fault}"),
    }
}

/// One database and its losses.
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
        // Few operations hit the opening and the recovery, many the work.
        let operations = 1 << rng.u32(2..12);
        faults.power_off_after(rng.u64(..operations));
        let reached = work(&path, &options, &world, &faults, seed * 1_000 + loss);
        let kept = [Kept::Nothing, Kept::Part, Kept::All][rng.usize(..3)];
        let entries = rng.bool();
        faults.lose(&path, kept, entries, rng.u64(..));
        let told = format!(
            "seed {seed}, loss {loss}, {durability:?}, {kept:?} kept, entries lost: {entries}, \
             {reached:?}"
        );

        let db = Database::open(&path, &world.specs(), options.clone())
            .unwrap_or_else(|e| panic!("{told}: {:?} {e}", e.kind()));
        let n = World::transaction_of(&db).unwrap_or_else(|e| panic!("{told}: {e}"));
        assert!(
            reached.durable <= n && n <= reached.attempting,
            "{told}: the database stands at {n}"
        );
        world.advance_to(n);
        world.lose_as_stopped(&db, &reached);
        world
            .check(&db)
            .unwrap_or_else(|e| panic!("{told}: at {n}: {e}"));
        // Half of the time the next loss finds what the recovery left, not what a close wrote.
        let cleanly = rng.bool();
        world.lose(cleanly);
        if cleanly {
            db.close().unwrap_or_else(|e| panic!("{told}: {e}"));
        } else if durability == Durability::Changelog {
            db.flush(true).unwrap_or_else(|e| panic!("{told}: {e}"));
        }
    }
}

#[test]
fn no_loss_of_power_loses_a_commit_or_tears_one() {
    let first = rounds("POWER_SEED", 1);
    let losses = rounds("POWER_LOSSES", 100);
    for seed in first..first + losses.div_ceil(LOSSES_EACH) {
        lose_power(seed);
    }
}

/// A spilled commit before each of whose writes and syncs the power goes in turn.
fn lose_power_in_a_commit(durability: Durability, kept: Kept, entries: bool, seed: u64) {
    for after in 0.. {
        let told = format!(
            "before write or sync {after} of the commit, {durability:?}, {kept:?} kept, entries \
             lost: {entries}, seed {seed}"
        );
        let (faults, dir) = (
            Faults::default(),
            directory().expect("a temporary directory"),
        );
        let options = DatabaseOptions {
            environment: Some(faults.environment()),
            ..runner::options(durability)
        };
        let db =
            Database::open(dir.path(), &spilled::specs(), options.clone()).expect("a new database");
        spilled::spill(&db, 1)
            .and_then(|()| spilled::commit(&db, 1))
            .and_then(|()| spilled::spill(&db, 2))
            .expect("there is power");
        faults.power_off_after(after);
        let committed = spilled::commit(&db, 2).is_ok();
        let ended = faults.powered();
        faults.power_off();
        drop(db);
        faults.lose(dir.path(), kept, entries, seed);
        let db = Database::open(dir.path(), &spilled::specs(), options)
            .unwrap_or_else(|e| panic!("{told}: {:?} {e}", e.kind()));
        let n = spilled::last_commit(&db).unwrap_or_else(|e| panic!("{told}: {e}"));
        assert!(
            n == 2 || !committed && n == 1,
            "{told}: the database stands at {n}"
        );
        if ended {
            // About 60; what RocksDB writes in the background comes earlier or later.
            assert!(
                committed && after > 30,
                "{told}: ended without the power gone"
            );
            break;
        }
    }
}

#[test]
fn the_power_may_go_at_each_step_of_a_spilled_commit() {
    // By the seed the commit file's name is lost with those of RocksDB's files, or they alone.
    lose_power_in_a_commit(Durability::Sync, Kept::Nothing, true, 0);
    lose_power_in_a_commit(Durability::Sync, Kept::Nothing, true, 1);
    if rounds("POWER_LOSSES", 100) > 100 {
        for (kept, entries) in [
            (Kept::Nothing, false),
            (Kept::Part, false),
            (Kept::Part, true),
            (Kept::All, true),
        ] {
            lose_power_in_a_commit(Durability::Sync, kept, entries, 2);
            lose_power_in_a_commit(Durability::Changelog, kept, entries, 3);
        }
    }
}
