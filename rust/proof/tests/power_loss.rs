//! A machine loses its power in the middle of anything: what was committed must be there, whole.

use holdfast_core::{Durability, Task, TaskOptions};
use holdfast_proof::{Fault, Faults, Kept, Reached, Runner, World, directory, generator, rounds, runner};
use std::path::Path;

/// Losses of one database, one after the other.
const LOSSES_EACH: u64 = 4;

/// Works until the power goes; how far it came.
fn work(path: &Path, options: &TaskOptions, world: &World, faults: &Faults, seed: u64) -> Reached {
    let mut reached = Reached::start(world.n());
    let mut note = |note| reached.note(note);
    let stopped = Runner::open(path, options.clone(), world.copy(), seed, &mut note).and_then(|mut runner| {
        loop {
            runner.step()?;
        }
    });
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
    let durability = if rng.bool() { Durability::Sync } else { Durability::Changelog };
    let options = TaskOptions { environment: Some(faults.environment()), ..runner::options(durability) };
    let dir = directory().expect("a temporary directory");
    let path = dir.path().join("task");
    let mut world = World::new(seed);
    for loss in 0..LOSSES_EACH {
        // Few operations hit the opening and the recovery, many the work.
        let operations = 1 << rng.u32(2..12);
        faults.power_off_after(rng.u64(..operations));
        let reached = work(&path, &options, &world, &faults, seed * 1_000 + loss);
        let kept = [Kept::Nothing, Kept::Part, Kept::All][rng.usize(..3)];
        let entries = rng.bool();
        faults.lose(&path, kept, entries, rng.u64(..));
        let told = format!("seed {seed}, loss {loss}, {durability:?}, {kept:?} kept, entries lost: {entries}, {reached:?}");

        let task = Task::open(&path, &world.specs(), options.clone()).unwrap_or_else(|e| panic!("{told}: {:?} {e}", e.kind()));
        let n = World::transaction_of(&task).unwrap_or_else(|e| panic!("{told}: {e}"));
        assert!(reached.durable <= n && n <= reached.attempting, "{told}: the task stands at {n}");
        world.advance_to(n);
        world.lose_as_stopped(&task, &reached);
        world.check(&task).unwrap_or_else(|e| panic!("{told}: at {n}: {e}"));
        // Half of the time the next loss finds what the recovery left, not what a close wrote.
        let cleanly = rng.bool();
        world.lose(cleanly);
        if cleanly {
            task.close().unwrap_or_else(|e| panic!("{told}: {e}"));
        } else if durability == Durability::Changelog {
            task.flush(true).unwrap_or_else(|e| panic!("{told}: {e}"));
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
