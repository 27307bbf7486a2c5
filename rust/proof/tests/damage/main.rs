//! One flipped bit, or a truncated or missing file: the database returns the right state or a clear
//! error, never a wrong answer and never silently an earlier commit.

mod files;

use crate::files::{copied, files_below, kind};
use holdfast_core::failpoint::{Action, Failpoint};
use holdfast_core::{Database, DatabaseOptions, Durability, ErrorKind, ProcessingGuarantee};
use holdfast_proof::{
    Runner, StepError, World, directory, generator, rounds, runner, without_retry_delay,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Transactions of which at least one spills.
const WITHIN: u64 = 400;
/// Damaged places per database.
const PLACES_EACH: u64 = 50;

#[derive(Clone, Copy, Debug)]
enum Damage {
    Flipped(usize, u8),
    Cut(usize),
    Gone,
}

/// A database at a transaction, closed or as a crash leaves it.
struct Original {
    path: PathBuf,
    world: World,
    durability: Durability,
    closed: bool,
    /// The files to damage, by kind. RocksDB's info log is left out: it is never read.
    files: BTreeMap<String, Vec<PathBuf>>,
}

/// Under at-least-once, rows written without transactions survive any stop, so they can be
/// compared. Compactions read damaged files, and RocksDB would sleep after each such error.
fn options(durability: Durability) -> DatabaseOptions {
    DatabaseOptions {
        guarantee: ProcessingGuarantee::AtLeastOnce,
        environment: Some(without_retry_delay()),
        ..runner::options(durability)
    }
}

fn original(path: PathBuf, seed: u64) -> Original {
    let mut rng = generator(seed, 1);
    // Without a WAL a crash may lose commits, so such a database is always closed.
    let (durability, closed) = [
        (Durability::Sync, false),
        (Durability::Sync, true),
        (Durability::Changelog, true),
    ][rng.usize(..3)];
    let mut note = |_| {};
    let mut runner = Runner::open(
        &path,
        options(durability),
        World::new(seed),
        seed,
        &mut note,
    )
    .expect("a new database");
    for _ in 0..rng.u64(20..150) {
        runner.step().unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
    if closed {
        runner.db().close().expect("a close");
    }
    let interrupted = !closed && rng.bool();
    if interrupted {
        Failpoint::AfterCommitFile.arm(Action::Error, 0);
        let stopped = (0..WITHIN).find_map(|_| runner.step().err());
        assert!(
            Failpoint::disarm() && stopped.is_some(),
            "seed {seed}: no transaction was spilled"
        );
        runner.world.go_forward();
    }
    let mut world = runner.world.copy();
    world.lose(true);
    drop(runner);
    let mut files: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for file in files_below(&path) {
        if !kind(&file).starts_with("LOG") {
            files.entry(kind(&file)).or_default().push(file);
        }
    }
    Original {
        path,
        world,
        durability,
        closed,
        files,
    }
}

/// Opens a damaged database: returns the message of a clear error, or `None` for the right state.
fn opened(path: &Path, original: &Original) -> Result<Option<String>, String> {
    let right = |fault: StepError| match fault {
        StepError::Store(e)
            if e.kind() == ErrorKind::StoreCorrupted
                && e.to_string().contains(&path.display().to_string()) =>
        {
            Ok(Some(e.to_string()))
        }
        StepError::Store(e) => Err(format!(
            "not `StoreCorrupted` with the database's path, but {:?}: {e}",
            e.kind()
        )),
        wrong => Err(wrong.to_string()),
    };
    let db = match Database::open(path, &original.world.specs(), options(original.durability)) {
        Ok(db) => db,
        Err(e) => return right(StepError::Store(e)),
    };
    let answer = World::transaction_of(&db).and_then(|n| {
        if n != original.world.n() {
            return Err(StepError::Wrong(format!(
                "the database silently stands at transaction {n}"
            )));
        }
        original.world.check(&db)
    });
    answer.map_or_else(right, |()| Ok(None))
}

#[test]
fn damage_is_an_error_or_changes_nothing() {
    let first = rounds("DAMAGE_SEED", 1);
    let places = rounds("DAMAGE_PLACES", 100);
    let mut seen: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for seed in first..first + places.div_ceil(PLACES_EACH) {
        let dir = directory().expect("a temporary directory");
        let original = original(dir.path().join("database"), seed);
        let mut rng = generator(seed, 2);
        let kinds: Vec<_> = original.files.keys().cloned().collect();
        for place in 0..PLACES_EACH {
            // All kinds in turn, data, logs and manifests more often.
            let kind = match place % 4 {
                0 if original.files.contains_key(".log") && !original.closed => ".log",
                0 | 1 => ".sst",
                2 => "MANIFEST-",
                _ => &kinds[(place / 4) as usize % kinds.len()],
            };
            let files = &original.files[kind];
            let file = &files[rng.usize(..files.len())];
            let mut bytes = std::fs::read(file).expect("the file");
            let damage = match rng.u8(..10) {
                // In every second database a file of each kind is removed once.
                _ if place % 4 == 3 && seed % 2 == 1 && place / 4 < kinds.len() as u64 => {
                    Damage::Gone
                }
                0 => Damage::Gone,
                1..=3 if !bytes.is_empty() => Damage::Cut(rng.usize(..bytes.len())),
                _ if !bytes.is_empty() => {
                    Damage::Flipped(rng.usize(..bytes.len()), 1 << rng.u8(..8))
                }
                _ => Damage::Gone,
            };
            let copy = dir.path().join("copy");
            copied(&original.path, &copy);
            let damaged = copy.join(file.strip_prefix(&original.path).expect("a file below"));
            match damage {
                Damage::Flipped(at, bit) => {
                    bytes[at] ^= bit;
                    std::fs::write(&damaged, &bytes).expect("a write");
                }
                Damage::Cut(at) => std::fs::write(&damaged, &bytes[..at]).expect("a write"),
                Damage::Gone => std::fs::remove_file(&damaged).expect("a removal"),
            }
            let context = format!(
                "DAMAGE_SEED={seed}, place {place}: {} of {} bytes, {damage:?}; {:?}, closed: {}, \
                 at {}",
                damaged.display(),
                bytes.len(),
                original.durability,
                original.closed,
                original.world.n()
            );
            let first = opened(&copy, &original).unwrap_or_else(|e| panic!("{context}: {e}"));
            // Reopening must not turn an error into an earlier state.
            let again =
                opened(&copy, &original).unwrap_or_else(|e| panic!("{context}: opened again: {e}"));
            assert!(
                again.is_some() || first.is_none(),
                "{context}: an error that is gone when the database is opened again: {first:?}"
            );
            if let Some(message) = first.as_ref().filter(|_| kind == ".log") {
                assert!(
                    message.contains("the last good commit"),
                    "{context}: the last good commit is not named: {message}"
                );
            }
            let counts = seen.entry(kind.to_owned()).or_default();
            counts.0 += 1;
            counts.1 += u64::from(first.is_some());
        }
    }
    for (kind, (tried, noticed)) in &seen {
        println!("damage: {kind}: {tried} places, {noticed} errors");
    }
    for kind in [
        ".sst",
        ".log",
        "MANIFEST-",
        "CURRENT",
        "OPTIONS-",
        "IDENTITY",
        "HOLDER",
        "LOCK",
        "COMMITTED",
        "+commit/COMMIT",
        "+commit/-.sst",
    ] {
        assert!(
            seen.contains_key(kind) || places < 100,
            "no {kind} was damaged"
        );
    }
}

/// The positions of the record types in a log or a manifest, in blocks of 32 KiB. A record is:
/// checksum, 4 bytes | length, 2 | type, 1 | data.
fn types_of_records(file: &[u8]) -> Vec<usize> {
    const BLOCK: usize = 32 * 1024;
    let (mut types, mut at) = (Vec::new(), 0);
    while at + 7 <= file.len() {
        if BLOCK - at % BLOCK < 7 {
            at = at.next_multiple_of(BLOCK);
            continue;
        }
        types.push(at + 6);
        at += 7 + usize::from(u16::from_le_bytes([file[at + 4], file[at + 5]]));
    }
    types
}

/// RocksDB alone never finishes reading a record with the type of a recycled log.
#[test]
fn open_ends_for_every_record_type() {
    const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);
    let dir = directory().expect("a temporary directory");
    let path = dir.path().join("database");
    let mut options = options(Durability::Sync);
    options.uncommitted_max_bytes = -1;
    let mut world = World::new(8);
    let db = Database::open(&path, &world.specs(), options.clone()).expect("a new database");
    for n in 0..20 {
        world
            .commit_next(&db, &mut |_| {})
            .unwrap_or_else(|e| panic!("{e}"));
        if n == 10 {
            db.flush(true).expect("a flush");
        }
    }
    drop(db);
    let copy = dir.path().join("copy");
    let mut tried = BTreeMap::<String, u64>::new();
    for file in files_below(&path)
        .into_iter()
        .filter(|file| ["MANIFEST-", ".log"].contains(&&*kind(file)))
    {
        let bytes = std::fs::read(&file).expect("the file");
        for (record, place) in types_of_records(&bytes).into_iter().enumerate() {
            copied(&path, &copy);
            let mut damaged = bytes.clone();
            damaged[place] ^= 4;
            std::fs::write(copy.join(file.file_name().expect("a name")), &damaged)
                .expect("a write");
            if record % 2 == 1 {
                // A checkpoint has no `HOLDER`, so an open first checks whether its files are those
                // of another program.
                std::fs::remove_file(copy.join("HOLDER")).expect("a file");
            }
            let (ends, ended) = std::sync::mpsc::channel();
            let (specs, options, copy) = (world.specs(), options.clone(), copy.clone());
            std::thread::spawn(move || ends.send(Database::open(&copy, &specs, options).map(drop)));
            let context = format!("record {record} of {}", file.display());
            let opened = ended
                .recv_timeout(PATIENCE)
                .unwrap_or_else(|_| panic!("{context}: the open does not end"));
            let Err(error) = opened else {
                panic!("{context}: undetected damage")
            };
            assert_eq!(
                error.kind(),
                ErrorKind::StoreCorrupted,
                "{context}: {error}"
            );
            assert!(
                kind(&file) != ".log" || error.to_string().contains("the last good commit"),
                "{context}: {error}"
            );
            *tried.entry(kind(&file)).or_default() += 1;
        }
    }
    assert!(
        tried.values().all(|records| *records > 5) && tried.len() == 2,
        "{tried:?}"
    );
}

/// Logs newer than a truncated manifest would be replayed onto an older state.
#[test]
fn truncated_manifest_never_opens_with_missing_commits() {
    let dir = directory().expect("a temporary directory");
    let path = dir.path().join("database");
    let mut options = options(Durability::Sync);
    // Compactions would remove the older state's files, which is detected anyway.
    options
        .rocksdb_options
        .push(("disable_auto_compactions".into(), "true".into()));
    // Without spills the failpoint of the other test is not reached.
    options.uncommitted_max_bytes = -1;
    let mut world = World::new(7);
    let db = Database::open(&path, &world.specs(), options).expect("a new database");
    for n in 0..25 {
        world
            .commit_next(&db, &mut |_| {})
            .unwrap_or_else(|e| panic!("{e}"));
        if n % 5 == 2 {
            db.flush(true).expect("a flush");
        }
    }
    drop(db);
    world.lose(true);
    let original = Original {
        path,
        world,
        durability: Durability::Sync,
        closed: false,
        files: BTreeMap::new(),
    };
    let copy = dir.path().join("copy");
    let mut noticed = 0;
    for (part, wrongly_first) in (1..=32).flat_map(|part| [(part, false), (part, true)]) {
        copied(&original.path, &copy);
        let manifests = std::fs::read_dir(&copy)
            .expect("the files")
            .flatten()
            .map(|entry| entry.path());
        let manifest = manifests
            .into_iter()
            .find(|path| kind(path) == "MANIFEST-")
            .expect("a manifest");
        let bytes = std::fs::read(&manifest).expect("the manifest");
        let cut = bytes.len() * part / 33;
        std::fs::write(&manifest, &bytes[..cut]).expect("a write");
        if wrongly_first {
            // An open with another durability fails. It must not replay the logs before it fails.
            let opened = Database::open(
                &copy,
                &original.world.specs(),
                self::options(Durability::Changelog),
            );
            assert!(opened.is_err(), "{cut} of {} bytes", bytes.len());
        }
        let error = opened(&copy, &original).unwrap_or_else(|e| {
            panic!(
                "{cut} of {} bytes, opened with another durability first: {wrongly_first}: {e}",
                bytes.len()
            )
        });
        noticed += usize::from(error.is_some());
    }
    assert!(
        noticed > 40,
        "a truncated manifest opened without an error {} times of 64",
        64 - noticed
    );
}
