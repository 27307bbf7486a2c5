//! Every failpoint of the engine with an error, a panic and an abort: the database holds one whole
//! commit that is not older than the last durable one, and it continues if it can.

use holdfast_core::failpoint::{Action, Failpoint};
use holdfast_core::{Database, Durability, ErrorKind, panic_message};
use holdfast_proof::{
    Note, RunProgress, Runner, StepError, World, directory, generator, rounds, runner,
};
use std::any::Any;
use std::fmt::Debug;
use std::num::NonZero;
use std::os::unix::process::ExitStatusExt;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

/// Transactions before the failpoint is armed, and after it was hit.
const STEPS: u64 = 15;
/// Transactions within which every failpoint is reached.
const WITHIN: u64 = 400;

const SIGABRT: i32 = 6;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        [_, "child", path, seed, point, action] => {
            let point = named(Failpoint::ALL, point);
            match (point, named(&[Action::Panic, Action::Abort], action)) {
                (Some(point), Some(action)) => child(Path::new(path), number(seed), point, action),
                _ => ExitCode::FAILURE,
            }
        }
        [_, "round", seed] => round(number(seed)),
        _ => run_rounds_in_parallel(),
    }
}

fn named<T: Copy + Debug>(all: &[T], name: &str) -> Option<T> {
    all.iter().copied().find(|one| format!("{one:?}") == name)
}

fn number(argument: &str) -> u64 {
    argument.parse().unwrap_or_default()
}

/// Runs each round in a separate process, because a failpoint is armed for the whole process. Each
/// core runs one round at a time.
fn run_rounds_in_parallel() -> ExitCode {
    let first = rounds("FAILPOINT_SEED", 1);
    let seeds = first..first + rounds("FAILPOINT_ROUNDS", 2);
    let next = AtomicU64::new(seeds.start);
    let lanes = std::thread::available_parallelism().map_or(1, NonZero::get);
    let take = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| seeds.contains(seed));
    let proven = |seed: u64| {
        let program = std::env::current_exe().expect("this program");
        Command::new(program)
            .args(["round", &seed.to_string()])
            .stdin(Stdio::null())
            .status()
            .is_ok_and(|done| done.success())
    };
    let lane = || std::iter::from_fn(take).all(proven);
    let all_are = std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..lanes).map(|_| scope.spawn(lane)).collect();
        lanes.into_iter().all(|lane| lane.join().unwrap_or(false))
    });
    if all_are {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The message of the point's own error or panic.
fn injected(point: Failpoint) -> String {
    format!("failpoint {point:?}")
}

fn foreign(panic: &(dyn Any + Send)) -> String {
    format!(
        "a panic that is not the point's own: {}",
        panic_message(panic)
    )
}

fn round(seed: u64) -> ExitCode {
    // Panics are part of the test.
    std::panic::set_hook(Box::new(|_| {}));
    let mut hit = 0;
    for point in Failpoint::ALL.iter().copied() {
        for action in [Action::Error, Action::Panic, Action::Abort] {
            let done = std::panic::catch_unwind(|| proven(seed, point, action));
            let done = done.unwrap_or_else(|panic| Err(foreign(&*panic)));
            if let Err(why) = done {
                println!("failpoints FAILED: FAILPOINT_SEED={seed}, {point:?}, {action:?}: {why}");
                return ExitCode::FAILURE;
            }
            hit += 1;
        }
    }
    println!(
        "failpoints: seed {seed}: {} points, {hit} times hit with an error, a panic or an abort",
        Failpoint::ALL.len()
    );
    ExitCode::SUCCESS
}

fn durability(seed: u64) -> Durability {
    if seed.is_multiple_of(2) {
        Durability::Sync
    } else {
        Durability::Changelog
    }
}

fn proven(seed: u64, point: Failpoint, action: Action) -> Result<(), String> {
    let dir = directory().map_err(|e| e.to_string())?;
    let path = dir.path().join("database");
    // A panic in a callback of RocksDB ends the process.
    let dies =
        action == Action::Abort || (action == Action::Panic && point == Failpoint::InCompaction);
    if dies {
        die(&path, seed, point, action)
    } else {
        survive(&path, seed, point, action)
    }
}

/// How often a failpoint is passed before it acts: up to 19 times if it is reached often. Every
/// commit and every write to a store without transactions reaches `BeforeCommit` and `AfterCommit`.
fn passed(seed: u64, point: Failpoint) -> u32 {
    let often = matches!(
        point,
        Failpoint::BeforeCommit | Failpoint::AfterCommit | Failpoint::BeforeExpiry
    );
    if often {
        generator(seed, 5).u32(..20)
    } else {
        0
    }
}

/// Reopens and compares the database; returns its world.
fn reopened(path: &Path, seed: u64, progress: &RunProgress) -> Result<World, String> {
    let mut world = World::new(seed);
    let db = Database::open(path, &world.specs(), runner::options(durability(seed)))
        .map_err(|e| format!("reopened: {e}"))?;
    let n = World::transaction_of(&db).map_err(|e| e.to_string())?;
    if n < progress.durable || n > progress.attempting {
        return Err(format!(
            "reopened: the database stands at {n}, of {} durable and {} attempted",
            progress.durable, progress.attempting
        ));
    }
    world.advance_to(n);
    world.lose_after_stop(&db, progress);
    world
        .check(&db)
        .map_err(|e| format!("reopened at {n}: {e}"))?;
    db.close().map_err(|e| e.to_string())?;
    world.lose(true);
    Ok(world)
}

fn steps(runner: &mut Runner<'_>, count: u64) -> Result<(), StepError> {
    (0..count).try_for_each(|_| runner.step())
}

/// Hits an error or a panic: the database continues after a rollback, or else after a reopen.
fn survive(path: &Path, seed: u64, point: Failpoint, action: Action) -> Result<(), String> {
    let mut progress = RunProgress::default();
    let mut note = |note| progress.note(note);
    let mut exactly = None;
    let went_on;
    {
        let mut runner = Runner::open(
            path,
            runner::options(durability(seed)),
            World::new(seed),
            seed,
            &mut note,
        )
        .map_err(|e| e.to_string())?;
        steps(&mut runner, STEPS).map_err(|e| e.to_string())?;
        point.arm(action, passed(seed, point));
        // A failed step has hit the failpoint. A compaction filter cannot fail, so its failpoint
        // fails no step.
        let stopped = std::panic::catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..WITHIN {
                if let Err(fault) = runner.step() {
                    return Some(fault);
                }
            }
            None
        }));
        if !Failpoint::disarm() {
            return Err(format!("not reached in {WITHIN} transactions"));
        }
        let in_commit = Failpoint::ALL
            .iter()
            .skip_while(|p| **p != Failpoint::AfterCommitFile)
            .any(|p| *p == point);
        let stopped_late = match &stopped {
            Ok(Some(fault)) => fault.to_string().contains("a commit was interrupted"),
            Ok(None) => false,
            Err(_) => {
                in_commit
                    || matches!(
                        point,
                        Failpoint::BeforeCommit | Failpoint::BeforeFlush | Failpoint::AfterFlush
                    )
            }
        };
        match stopped {
            Ok(Some(StepError::Store(error)))
                if action == Action::Error && error.to_string().contains(&injected(point)) => {}
            Ok(Some(fault)) => return Err(format!("the point hit, and then: {fault}")),
            // The commit took effect; only deferrable work failed.
            Ok(None) if matches!(point, Failpoint::InCompaction | Failpoint::BeforeExpiry) => {}
            Ok(None) => return Err("the failpoint was hit without an error".to_owned()),
            Err(panic) if action == Action::Panic && panic_message(&*panic) == injected(point) => {}
            Err(panic) => return Err(foreign(&*panic)),
        }
        // If a panic follows a write, the open database may lack the write until it is opened
        // again.
        let unknown = action == Action::Panic
            && matches!(point, Failpoint::AfterCommit | Failpoint::BeforeExpiry);
        let healed = match runner.db().rollback() {
            // The failpoint was hit while the database was reopened.
            Err(error) if error.kind() == ErrorKind::StoreClosed => false,
            Err(error) => return Err(format!("rollback: {error}")),
            Ok(()) => !unknown,
        };
        if healed && stopped_late {
            // A spilled commit takes effect with its commit file; a rollback completes it.
            let n = World::transaction_of(runner.db()).map_err(|e| e.to_string())?;
            if n == runner.world.n() + 1 {
                runner.world.go_forward();
            }
        } else if healed && point == Failpoint::AfterCommit {
            // All written bytes survive.
            runner.world.go_forward();
        }
        if healed {
            runner
                .world
                .check(runner.db())
                .map_err(|e| format!("after the rollback: {e}"))?;
            if action == Action::Error {
                // The files contain nothing of the failed step.
                runner.db().flush(true).map_err(|e| e.to_string())?;
                exactly = Some(runner.world.n());
            }
        }
        if healed && action == Action::Panic {
            steps(&mut runner, STEPS).map_err(|e| format!("going on: {e}"))?;
            runner
                .world
                .check(runner.db())
                .map_err(|e| format!("going on: {e}"))?;
        }
        went_on = healed && action == Action::Panic;
    }
    let world = reopened(path, seed, &progress)?;
    if exactly.is_some_and(|n| n != world.n()) {
        return Err(format!(
            "reopened: transaction {} failed, and is committed",
            world.n()
        ));
    }
    if went_on {
        return Ok(());
    }
    let mut note = |_| {};
    let mut runner = Runner::open(
        path,
        runner::options(durability(seed)),
        world,
        seed + 1,
        &mut note,
    )
    .map_err(|e| e.to_string())?;
    steps(&mut runner, STEPS)
        .and_then(|()| runner.world.check(runner.db()))
        .map_err(|e| format!("going on: {e}"))
}

/// Ends a process at the failpoint; nothing is lost.
fn die(path: &Path, seed: u64, point: Failpoint, action: Action) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let done = Command::new(program)
        .arg("child")
        .arg(path)
        .args([
            seed.to_string(),
            format!("{point:?}"),
            format!("{action:?}"),
        ])
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .output()
        .map_err(|e| e.to_string())?;
    let (progress_lines, last_words) = (
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr),
    );
    if done.status.signal() != Some(SIGABRT) || !is_own_death(&last_words, point, action) {
        return Err(format!(
            "the process did not die at the point, {}: {progress_lines}{last_words}",
            done.status
        ));
    }
    let mut progress = RunProgress::default();
    progress_lines
        .lines()
        .for_each(|line| progress.note_line(line));
    reopened(path, seed, &progress).map(drop)
}

/// Whether the stderr of a dead process shows that it died at the point, and for no other reason.
fn is_own_death(last_words: &str, point: Failpoint, action: Action) -> bool {
    let own = injected(point);
    if action == Action::Abort {
        return last_words == format!("{own}: abort\n");
    }
    // The panic of the point reaches RocksDB's code, which panics cannot cross; that is the second
    // panic.
    last_words.matches("panicked at").count() == 2
        && last_words.lines().any(|line| line == own)
        && last_words.contains("panic in a function that cannot unwind")
}

fn child(path: &Path, seed: u64, point: Failpoint, action: Action) -> ExitCode {
    let mut note = |note: Note| print!("{}", note.line());
    let worked = Runner::open(
        path,
        runner::options(durability(seed)),
        World::new(seed),
        seed,
        &mut note,
    )
    .and_then(|mut runner| {
        steps(&mut runner, STEPS)?;
        point.arm(action, passed(seed, point));
        steps(&mut runner, WITHIN)
    });
    println!("{worked:?}");
    ExitCode::FAILURE
}
