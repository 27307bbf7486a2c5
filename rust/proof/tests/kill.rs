//! A process killed by SIGKILL at any moment: the parent reopens the database and compares it with
//! the model.
//!
//! The child is this program. It runs a seed's transactions. In a file beside the database it notes
//! which commits it attempts and which have returned. Plain writes are enough for the notes: a kill
//! loses no page cache. A second thread of the child kills it some time after an open of the
//! database began or ended, or at a chosen moment: a delay after "attempting n", after the start of
//! a flush, a compaction, a checkpoint or a reopen, or between the steps of a spilled commit.
//!
//! `make crash N=1000` runs 1,000 kills and continues where an earlier run of the same build was
//! stopped.

use holdfast_core::failpoint::{Action, Failpoint};
use holdfast_core::{Database, Durability, ErrorKind};
use holdfast_proof::{Note, RunProgress, Runner, World, directory, generator, rounds, runner};
use std::fs::OpenOptions;
use std::io::{BufRead, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// Consecutive kills of one database.
const KILLS_EACH: u64 = 10;
/// A child that is alive after this time hangs.
const PATIENCE: Duration = Duration::from_secs(600);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, role, path, numbers @ ..] = arguments.as_slice()
        && role == "child"
        && let [seed, kill, n, emptied] = *numbers
            .iter()
            .map(|text| text.parse().unwrap_or_default())
            .collect::<Vec<u64>>()
    {
        return child(Path::new(path), seed, kill, World::at(seed, n, emptied));
    }
    parent()
}

fn durability(seed: u64) -> Durability {
    if seed.is_multiple_of(2) {
        Durability::Sync
    } else {
        Durability::Changelog
    }
}

/// When a child dies.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// A delay after it has opened and compared the database.
    AfterStart(Duration),
    /// A delay after it began to open the database.
    AtOpen(Duration),
    /// A delay after the commit of the child's n-th transaction, counted from 0, began.
    AtCommit(u64, Duration),
    /// A delay after the n-th flush, compaction, checkpoint or reopen, counted from 0, began.
    AtUpkeep(u64, Duration),
    /// A delay after a failpoint was passed n times and is reached again.
    AtPoint(Failpoint, u32, Duration),
}

/// The families into which a spilled commit ingests files.
const FAMILIES: u32 = 10;

/// Draws a step of a spill or of a spilled commit: a failpoint, and how often it is passed before.
///
/// The steps in order: rows are written to sorted files; these files are merged and earlier commits
/// are flushed; the commit file is written; the files of each family are ingested, and after the
/// last family the metadata is written; the commit's folder is removed.
fn step_of_a_spilled_commit(rng: &mut fastrand::Rng) -> (Failpoint, u32) {
    match rng.u8(..8) {
        0 => (Failpoint::BeforeSpill, 0),
        1 => (Failpoint::AfterSpill, 0),
        2 => (Failpoint::BeforeCommitFile, 0),
        3 => (Failpoint::AfterCommitFile, 0),
        4 => (Failpoint::BetweenIngests, rng.u32(..FAMILIES)),
        5 | 6 => (Failpoint::BetweenIngests, FAMILIES - 1),
        _ => (Failpoint::BeforeCommitFileRemoval, 0),
    }
}

fn moment(seed: u64, kill: u64) -> Moment {
    let mut rng = generator(seed, (1 << 60) + kill);
    let micros = |rng: &mut fastrand::Rng, most: u64| Duration::from_micros(rng.u64(..most));
    match rng.u8(..12) {
        0..=2 => Moment::AfterStart(micros(&mut rng, 60_000)),
        3 => Moment::AtOpen(micros(&mut rng, 20_000)),
        4..=6 => Moment::AtCommit(rng.u64(..100), micros(&mut rng, 1_500)),
        7..=9 => Moment::AtUpkeep(rng.u64(..8), micros(&mut rng, 6_000)),
        _ => {
            let (point, passed) = step_of_a_spilled_commit(&mut rng);
            Moment::AtPoint(point, passed, micros(&mut rng, 800))
        }
    }
}

fn notes(path: &Path) -> PathBuf {
    path.with_extension("notes")
}

fn die_after(delay: Duration) {
    std::thread::spawn(move || {
        // A failpoint that is armed must be hit first.
        while Failpoint::is_armed() {
            std::thread::sleep(Duration::from_micros(10));
        }
        // Sleeping is too coarse for microseconds.
        let start = Instant::now();
        while start.elapsed() < delay {
            std::hint::spin_loop();
        }
        let _ =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    });
}

/// Runs transactions until it is killed; returns only after an error.
fn child(path: &Path, seed: u64, kill: u64, world: World) -> ExitCode {
    let (moment, start) = (moment(seed, kill), world.n());
    let mut notes = match OpenOptions::new()
        .create(true)
        .append(true)
        .open(notes(path))
    {
        Ok(file) => file,
        Err(e) => {
            eprintln!("the notes cannot be written: {e}");
            return ExitCode::FAILURE;
        }
    };
    let mut upkeep = 0;
    let mut note = |note: Note| {
        let _ = notes.write_all(note.line().as_bytes());
        match (moment, note) {
            (Moment::AtCommit(n, delay), Note::Attempting(m)) if m == start + 1 + n => {
                die_after(delay)
            }
            (Moment::AtUpkeep(n, delay), Note::Upkeep(_)) => {
                if upkeep == n {
                    die_after(delay);
                }
                upkeep += 1;
            }
            _ => {}
        }
    };
    match moment {
        Moment::AtOpen(delay) => die_after(delay),
        Moment::AtPoint(point, passed, delay) => {
            point.arm(Action::Mark, passed);
            die_after(delay);
        }
        _ => {}
    }
    let worked = Runner::open(
        path,
        runner::options(durability(seed)),
        world,
        seed * 1_000 + kill,
        &mut note,
    )
    .and_then(|mut runner| {
        runner.world.check(runner.db())?;
        if let Moment::AfterStart(delay) = moment {
            die_after(delay);
        }
        loop {
            runner.step()?;
        }
    });
    match worked {
        Ok(never) => never,
        Err(fault) => {
            eprintln!("{fault}");
            ExitCode::FAILURE
        }
    }
}

/// Reads the notes of a child that started after transaction `start`.
fn read_progress(path: &Path, start: u64) -> RunProgress {
    let mut progress = RunProgress::start(start);
    let Ok(file) = std::fs::File::open(notes(path)) else {
        return progress;
    };
    std::io::BufReader::new(file)
        .lines()
        .map_while(Result::ok)
        .for_each(|line| progress.note_line(&line));
    let _ = std::fs::remove_file(notes(path));
    progress
}

/// Kills children of one database `kills` times; returns the number of verified kills, or the
/// error.
fn live(path: &Path, seed: u64, kills: u64) -> Result<u64, String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut world = World::new(seed);
    for kill in 0..kills {
        let mut child = Command::new(&program)
            .arg("child")
            .arg(path)
            .args([seed, kill, world.n(), world.emptied()].map(|number| number.to_string()))
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| e.to_string())?;
        let started = Instant::now();
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                _ if started.elapsed() > PATIENCE => {
                    let _ = child.kill();
                    return Err(format!("kill {kill}: the child hangs"));
                }
                _ => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        let mut said = String::new();
        if let Some(mut stderr) = child.stderr.take() {
            let _ = std::io::Read::read_to_string(&mut stderr, &mut said);
        }
        if status.signal() != Some(9) {
            return Err(format!(
                "kill {kill} ({:?}): the child ended by itself, {status}: {said}",
                moment(seed, kill)
            ));
        }
        let progress = read_progress(path, world.n());
        let context = format!(
            "kill {kill} ({:?}), {:?}, {progress:?}",
            moment(seed, kill),
            durability(seed)
        );

        if progress.open {
            // After an unclean stop an open empties a store without transactions. It never empties
            // a store that it opens with transactions, so this open must fail.
            match Database::open(
                path,
                &world.transactional_specs(),
                runner::options(durability(seed)),
            ) {
                Err(e) if e.kind() == ErrorKind::StateMismatch => {}
                Err(e) => {
                    return Err(format!(
                        "{context}: opened with transactions: {:?} {e}",
                        e.kind()
                    ));
                }
                Ok(_) => {
                    return Err(format!(
                        "{context}: opened with transactions after an unclean stop"
                    ));
                }
            }
        }
        let db = Database::open(path, &world.specs(), runner::options(durability(seed)))
            .map_err(|e| format!("{context}: {:?} {e}", e.kind()))?;
        let n = World::transaction_of(&db).map_err(|e| format!("{context}: {e}"))?;
        if n < progress.durable || n > progress.attempting {
            return Err(format!("{context}: the database stands at {n}"));
        }
        world.advance_to(n);
        world.lose_after_stop(&db, &progress);
        world
            .check(&db)
            .map_err(|e| format!("{context}: at {n}: {e}"))?;
        // Half of the time the next child opens the files as the recovery left them, without a
        // close.
        let cleanly = generator(seed, (1 << 58) + kill).bool();
        world.lose(cleanly);
        if cleanly {
            db.close().map_err(|e| format!("{context}: {e}"))?;
        } else if durability(seed) == Durability::Changelog {
            db.flush(true).map_err(|e| format!("{context}: {e}"))?;
        }
    }
    Ok(kills)
}

/// The file in which a long run of this program notes its progress: kills and the next seed. Each
/// build of the program has a separate file.
fn progress_file() -> Option<PathBuf> {
    let path = std::env::var_os("CRASH_PROGRESS").map(PathBuf::from)?;
    let built = std::env::current_exe()
        .and_then(|exe| exe.metadata()?.modified())
        .ok()?;
    Some(
        path.with_extension(
            built
                .duration_since(SystemTime::UNIX_EPOCH)
                .ok()?
                .as_secs()
                .to_string(),
        ),
    )
}

fn parent() -> ExitCode {
    let wanted = rounds("CRASH_KILLS", 100);
    let only = std::env::var("CRASH_SEED")
        .ok()
        .and_then(|seed| seed.parse::<u64>().ok());
    let (done, first) = match (
        progress_file().and_then(|path| std::fs::read_to_string(path).ok()),
        only,
    ) {
        (Some(text), None) => {
            let mut numbers = text.split_whitespace().map(|n| n.parse().unwrap_or(0));
            (numbers.next().unwrap_or(0), numbers.next().unwrap_or(1))
        }
        (_, only) => (0, only.unwrap_or(1)),
    };
    if done > 0 {
        println!("kill loop: continuing after {done} kills");
    }
    let (done, next) = (AtomicU64::new(done), AtomicU64::new(first));
    let failure: Mutex<Option<String>> = Mutex::new(None);
    let fail = |why: String| {
        if let Ok(mut failure) = failure.lock() {
            failure.get_or_insert(why);
        }
    };
    let workers = if only.is_some() { 1 } else { 2 };
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while done.load(Ordering::Relaxed) < wanted
                    && failure.lock().is_ok_and(|failure| failure.is_none())
                {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let mut dir = match directory() {
                        Ok(dir) => dir,
                        Err(why) => return fail(format!("no folder to work in: {why}")),
                    };
                    let kills = if only.is_some() { wanted } else { KILLS_EACH };
                    match live(&dir.path().join("database"), seed, kills) {
                        Ok(kills) => {
                            let before = done.fetch_add(kills, Ordering::Relaxed);
                            if (before + kills) * 10 / wanted > before * 10 / wanted {
                                println!(
                                    "kill loop: {} of {wanted} kills verified, {:?}",
                                    before + kills,
                                    started.elapsed()
                                );
                            }
                            if let Some(path) = progress_file() {
                                // A later run repeats the other worker's database.
                                let _ = std::fs::write(
                                    path,
                                    format!("{} {}", before + kills, seed + 1),
                                );
                            }
                        }
                        Err(why) => {
                            dir.disable_cleanup(true);
                            let kept = dir.path().display();
                            let repeat = format!("make crash SEED={seed} N={KILLS_EACH}");
                            fail(format!(
                                "seed {seed}, {why}\n  files: {kept}\n  repeat: {repeat}"
                            ));
                        }
                    }
                }
            });
        }
    });
    match failure.into_inner() {
        Ok(None) => {
            if let Some(path) = progress_file() {
                let _ = std::fs::remove_file(path);
            }
            println!(
                "kill loop: {} kills, all verified, in {:?}",
                done.into_inner(),
                started.elapsed()
            );
            ExitCode::SUCCESS
        }
        Ok(Some(why)) => {
            println!("kill loop FAILED: {why}");
            ExitCode::FAILURE
        }
        Err(_) => ExitCode::FAILURE,
    }
}
