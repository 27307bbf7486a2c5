//! Every byte format read from bytes that nobody of ours wrote: an answer or an error, never a panic.
//!
//! Inputs are the files of `corpus/` and mutations of them. One that makes a decoder panic is put there, so that it is tried for
//! ever after.

use holdfast_core::rocks::{Database, DatabaseOptions, FamilyKind, FamilySpec};
use holdfast_core::transaction::Batch;
use holdfast_core::{Durability, SessionQuery, Step, StoreKind, StoreSpec, Task, TaskOptions, Timestamp, read_offsets};
use holdfast_host::request::Request;
use holdfast_host::{frame, log, wire};
use holdfast_proof::{directory, generator, rounds, subject};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_128;

fn corpus(format: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(format)
}

/// One of the inputs, changed in a few places.
fn mutated(inputs: &[Vec<u8>], rng: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = inputs[rng.usize(..inputs.len())].clone();
    for _ in 0..rng.usize(1..5) {
        let at = rng.usize(..=bytes.len());
        match rng.u8(..6) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, rng.u8(..)),
            2 if at < bytes.len() => drop(bytes.remove(at)),
            3 if at < bytes.len() => bytes[at] ^= 1 << rng.u8(..8),
            // What lengths and counts do not like.
            4 if at < bytes.len() => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][rng.usize(..5)],
            _ => {
                let other = &inputs[rng.usize(..inputs.len())];
                bytes.truncate(at);
                bytes.extend_from_slice(&other[rng.usize(..=other.len())..]);
            }
        }
    }
    bytes
}

/// Feeds a decoder its corpus and so many mutations of it.
fn feed(format: &str, times: u64, decoder: impl Fn(&[u8])) {
    let folder = corpus(format);
    let mut inputs = vec![Vec::new()];
    for file in std::fs::read_dir(&folder).expect("a corpus") {
        inputs.push(std::fs::read(file.expect("a file").path()).expect("an input"));
    }
    assert!(inputs.len() > 1, "{} is empty", folder.display());
    let attempt = |bytes: &[u8]| {
        if std::panic::catch_unwind(AssertUnwindSafe(|| decoder(bytes))).is_err() {
            let kept =
                folder.join(format!("panic-{:016x}", bytes.iter().fold(0u64, |hash, b| hash.wrapping_mul(31).wrapping_add(u64::from(*b)))));
            std::fs::write(&kept, bytes).expect("a corpus");
            panic!("the decoder of {format} panics; the input is kept in {}", kept.display());
        }
    };
    inputs.iter().for_each(|input| attempt(input));
    let mut rng = generator(rounds("FUZZ_SEED", 1), 7);
    for _ in 0..times {
        attempt(&mutated(&inputs, &mut rng));
    }
}

fn times(default: u64) -> u64 {
    default * rounds("FUZZ_TIMES", 1)
}

#[test]
fn frames_and_messages() {
    feed("frame", times(5_000), |bytes| {
        let mut stream = bytes;
        while let Ok(Some(_)) = wire::receive(&mut stream, 1 << 20) {}
        let mut stream = bytes;
        while let Ok(Some(_)) = frame::read(&mut stream, frame::MAX_GREETING) {}
    });
}

#[test]
fn requests_and_errors() {
    feed("request", times(5_000), |bytes| {
        if let Ok(request) = Request::parse(bytes) {
            let _ = (request.settings.task_options(), request.place());
        }
    });
    feed("error", times(5_000), |bytes| drop(wire::decode_error(bytes)));
}

#[test]
fn log_objects() {
    feed("head", times(2_000), |bytes| {
        let _ = (log::decode_header("an object", bytes), log::decode_head("an object", bytes));
        let _ = log::decode_chunk("an object", "an object", bytes);
    });
}

#[test]
fn text_files_of_offsets() {
    let dir = directory().expect("a temporary directory");
    let file = dir.path().join(".checkpoint");
    feed("offsets", times(5_000), |bytes| {
        std::fs::write(&file, bytes).expect("a file");
        drop(read_offsets(&file));
    });
}

#[test]
fn commit_files() {
    let options = TaskOptions { durability: Durability::Changelog, ..TaskOptions::default() };
    feed("commit", times(60), |bytes| {
        let dir = directory().expect("a temporary directory");
        Task::open(dir.path(), &specs(), options.clone()).and_then(|task| task.close()).expect("a new database");
        let folder = dir.path().join("+commit");
        std::fs::create_dir(&folder).expect("a directory");
        // A right checksum, or nothing behind it is ever read.
        std::fs::write(folder.join("COMMIT"), [bytes, &xxh3_128(bytes).to_be_bytes()].concat()).expect("a file");
        std::fs::write(folder.join("0-0.sst"), b"rows").expect("a file");
        if let Ok(task) = Task::open(dir.path(), &specs(), options.clone()) {
            let _ = read_all(&task);
        }
    });
}

/// Every family of a task with every kind of store.
const FAMILIES: [(FamilyKind, &str); 10] = [
    (FamilyKind::Metadata, ""),
    (FamilyKind::Offsets, ""),
    (FamilyKind::KeyValue, "plain"),
    (FamilyKind::Versions, "versions"),
    (FamilyKind::Latest, "versions"),
    (FamilyKind::Stamped, "stamped"),
    (FamilyKind::Windowed, "windows"),
    (FamilyKind::Times, "windows"),
    (FamilyKind::Windowed, "sessions"),
    (FamilyKind::Times, "sessions"),
];

fn specs() -> [StoreSpec; 5] {
    [
        subject::spec("plain", StoreKind::KeyValue),
        subject::spec("versions", StoreKind::Versioned { history_retention: 100, segment_interval: 10 }),
        subject::spec("stamped", StoreKind::TimestampedKeyValue),
        subject::spec("windows", StoreKind::Window { retention: 100, window_size: 10, retain_duplicates: false, timestamped: true }),
        subject::spec("sessions", StoreKind::Session { retention: 100 }),
    ]
}

/// Rows out of any bytes: family, length of the key, key, length of the value, value.
fn rows(mut bytes: &[u8]) -> Vec<(FamilySpec, &[u8], &[u8])> {
    let mut rows = Vec::new();
    let part = |bytes: &mut &'_ [u8]| -> Option<usize> {
        let (length, rest) = bytes.split_first()?;
        *bytes = rest;
        Some(usize::from(*length).min(rest.len()))
    };
    while let Some((family, rest)) = bytes.split_first() {
        bytes = rest;
        let Some(key) = part(&mut bytes) else { break };
        let (key, rest) = bytes.split_at(key);
        bytes = rest;
        let Some(value) = part(&mut bytes) else { break };
        let (value, rest) = bytes.split_at(value);
        bytes = rest;
        let (kind, store) = FAMILIES[usize::from(*family) % FAMILIES.len()];
        rows.push((FamilySpec::new(kind, store), key, value));
    }
    rows
}

/// Everything that a task can be asked for.
fn read_all(task: &Task) -> holdfast_core::Result<()> {
    let (first, last) = (Timestamp::MIN, Timestamp::MAX);
    let mut tx = task.begin()?;
    let tx = &mut tx;
    task.committed_offsets()?;
    task.metrics()?;
    for reverse in [false, true] {
        task.key_value("plain")?.range(tx, None, None, reverse)?.for_each(&mut |_, _| Step::Next)?;
        task.timestamped_key_value("stamped")?.range(tx, None, None, reverse)?.for_each(&mut |_, _| true)?;
        task.window("windows")?.fetch_range(tx, None, None, first, last, reverse)?.for_each(&mut |_, _| true)?;
        let query = SessionQuery { key_from: None, key_to: None, earliest_end: first, latest_start: last, reverse };
        task.session("sessions")?.find_sessions(tx, query)?.for_each(&mut |_, _| true)?;
    }
    let versions = task.versioned("versions")?;
    versions.versions_range(tx, None, None, first, last)?.for_each(&mut |_, _| true)?;
    for as_of in [None, Some(Timestamp(0)), Some(last)] {
        versions.scan(tx, as_of)?.for_each(&mut |_, _| true)?;
    }
    for key in [&b""[..], b"a", b"k"] {
        versions.get(tx, key, |_| ())?;
        versions.get_as_of(tx, key, Timestamp(5), |_| ())?;
        versions.put(tx, key, Some(b"v"), Timestamp(5))?;
        versions.versions(tx, key, first, last, true)?.for_each(&mut |_, _| true)?;
    }
    for store in task.stores() {
        task.compact(&store.name)?;
    }
    Ok(())
}

#[test]
fn stored_rows() {
    let options = TaskOptions { durability: Durability::Changelog, ..TaskOptions::default() };
    feed("rows", times(60), |bytes| {
        let dir = directory().expect("a temporary directory");
        let path = dir.path().join("task");
        Task::open(&path, &specs(), options.clone()).and_then(|task| task.close()).expect("a new database");
        let families: Vec<_> = FAMILIES.iter().map(|(kind, store)| FamilySpec::new(*kind, store)).collect();
        let database = Database::open(&path, &families, &DatabaseOptions::default()).expect("the database");
        let mut batch = Batch::with_capacity(bytes.len());
        for (family, key, value) in rows(bytes) {
            batch.push(database.family(&family).expect("a family").id, key, Some(value));
        }
        database.write(&mut batch).expect("a write");
        database.flush(true).expect("a flush");
        database.close();
        drop(database);
        if let Ok(task) = Task::open(&path, &specs(), options.clone()) {
            let _ = read_all(&task);
        }
    });
}
