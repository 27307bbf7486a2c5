//! Every byte format read from bytes that nobody of ours wrote: an answer or an error, never a
//! panic, and never much more memory at once than the bytes can be worth.
//!
//! Inputs are the files of `corpus/`, what our own code writes of drawn values, and mutations of
//! both. One that a decoder fails at is put into `corpus/`, so that it is tried for ever after.
//! What is read as something must be read as the same once it is written again.
//!
//! Here frames, requests, log objects and what a database has · `messages.rs` what frames carry ·
//! `columns.rs` columns as rows of bytes · `root.rs` the files of a root · `state.rs` what
//! operators keep · `memory.rs` how much was asked for.

mod columns;
mod memory;
mod messages;
mod root;
mod state;

use fastrand::Rng;
use holdfast_core::rocks::{RocksDb, RocksOptions};
use holdfast_core::table::{FamilyKind, FamilySpec};
use holdfast_core::transaction::Batch;
use holdfast_core::{
    Database, DatabaseOptions, Durability, SessionQuery, Step, StoreKind, StoreSpec, Timestamp,
    read_offsets,
};
use holdfast_host::host::request::Request;
use holdfast_host::log;
use holdfast_host::log::{HeadHeader, Record, RecordsWriter};
use holdfast_host::net::{frame, message};
use holdfast_host::protocol::{Attempt, Digest, Epoch, OperatorName, PartitionId, RunNumber};
use holdfast_proof::{directory, generator, rounds, subject};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Once;
use xxhash_rust::xxh3::xxh3_128;

fn corpus(format: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(format)
}

/// A decoder may ask for this at once: twice what lz4 makes of the bytes, since vectors grow by
/// doubling, and what its own decoder or a database takes whatever comes.
fn most(bytes: &[u8]) -> usize {
    (32 << 20) + 2 * 255 * bytes.len()
}

/// Up to so many bytes.
fn bytes(rng: &mut Rng, most: usize) -> Vec<u8> {
    (0..rng.usize(..=most)).map(|_| rng.u8(..)).collect()
}

/// Up to so many characters, not all of one byte.
fn text(rng: &mut Rng, most: usize) -> String {
    (0..rng.usize(..=most))
        .map(|_| {
            if rng.u8(..8) == 0 {
                'ü'
            } else {
                rng.alphanumeric()
            }
        })
        .collect()
}

/// Values for one purpose: other ones with each `FUZZ_SEED`.
fn rng(purpose: u64) -> Rng {
    generator(rounds("FUZZ_SEED", 1), purpose)
}

/// One of the inputs, changed in a few places, or nothing of the kind.
fn mutated(inputs: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    if rng.u8(..16) == 0 {
        return bytes(rng, 200);
    }
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

thread_local! {
    /// What the last panic said, while a decoder is at work.
    static SAID: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// From now on a decoder's panics go there alone. Arrow's, which become errors, are thousands, and
/// a backtrace takes more memory than any input may.
fn keep_words_of_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let is_kept = SAID.with_borrow_mut(|said| {
                said.as_mut()
                    .map(|said| *said = panic.to_string())
                    .is_some()
            });
            if !is_kept {
                print(panic);
            }
        }));
    });
}

/// Feeds a decoder its corpus and so many mutations of it.
fn feed(format: &str, times: u64, decoder: impl Fn(&[u8])) {
    feed_made(format, Vec::new(), times, decoder);
}

/// As [`feed`], and of what our own code has made.
fn feed_made(format: &str, made: Vec<Vec<u8>>, times: u64, decoder: impl Fn(&[u8])) {
    let folder = corpus(format);
    let mut inputs = vec![Vec::new()];
    for file in std::fs::read_dir(&folder).expect("a corpus") {
        inputs.push(std::fs::read(file.expect("a file").path()).expect("an input"));
    }
    assert!(inputs.len() > 1, "{} is empty", folder.display());
    inputs.extend(made);
    keep_words_of_panics();
    let attempt = |bytes: &[u8]| {
        memory::forget();
        SAID.set(Some(String::new()));
        let result = std::panic::catch_unwind(AssertUnwindSafe(|| decoder(bytes)));
        let said = SAID.take().unwrap_or_default();
        let asked = memory::most_at_once();
        if result.is_err() || asked > most(bytes) {
            let does = if result.is_err() {
                "panics"
            } else {
                "asks for too much memory"
            };
            let kept = folder.join(format!(
                "panic-{:016x}",
                bytes.iter().fold(0u64, |hash, b| hash
                    .wrapping_mul(31)
                    .wrapping_add(u64::from(*b)))
            ));
            std::fs::write(&kept, bytes).expect("a corpus");
            panic!(
                "the decoder of {format} {does} ({asked} bytes at once); the input is kept in {}; \
                 {said}",
                kept.display()
            );
        }
    };
    inputs.iter().for_each(|input| attempt(input));
    let mut rng = rng(7);
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
        while let Ok(Some(_)) = message::receive(&mut stream, 1 << 20) {}
        let mut stream = bytes;
        while let Ok(Some(_)) = frame::read(&mut stream, frame::MAX_GREETING) {}
    });
}

#[test]
fn requests_and_errors() {
    let example = std::fs::read(corpus("request").join("example")).expect("an input");
    Request::parse(&example).expect("what is mutated is a request");
    feed("request", times(5_000), |bytes| {
        if let Ok(request) = Request::parse(bytes) {
            let _ = (request.settings.database_options(), request.query_epoch());
        }
    });
    feed("error", times(5_000), |bytes| {
        drop(message::decode_error(bytes))
    });
}

/// A record of the log: store, key, value, time.
type Owned = (String, Vec<u8>, Option<Vec<u8>>, Option<Timestamp>);

fn owned(record: Record<'_>) -> Owned {
    (
        record.store.to_owned(),
        record.key.to_vec(),
        record.value.map(<[u8]>::to_vec),
        record.timestamp,
    )
}

fn borrowed((store, key, value, timestamp): &Owned) -> Record<'_> {
    Record {
        store,
        key,
        value: value.as_deref(),
        timestamp: *timestamp,
    }
}

fn drawn_record(rng: &mut Rng) -> Owned {
    (
        text(rng, 2),
        bytes(rng, 20),
        rng.bool().then(|| bytes(rng, 60)),
        rng.bool().then(|| Timestamp(rng.i64(..))),
    )
}

/// The head of an epoch with these records, all but its checksum.
fn head<'a>(records: impl IntoIterator<Item = Record<'a>>) -> Vec<u8> {
    let mut writer = RecordsWriter::new().expect("a writer");
    for record in records {
        writer
            .push(record.store, record.key, record.value, record.timestamp)
            .expect("pushes");
    }
    let collected = writer
        .finish(&BTreeMap::new(), Digest::ZERO)
        .expect("finishes");
    let header = HeadHeader {
        operator: OperatorName::new("join").expect("a name"),
        epoch: Epoch(7),
        partition: PartitionId(3),
        run: RunNumber(2),
        attempt: Attempt(11),
        base: Digest::ZERO,
        digest: collected.digest,
        input: Digest::ZERO,
        input_rows: 3,
        output_rows: 2,
        stream_times: BTreeMap::from([("rates".to_owned(), 5)]),
        records: collected.records,
        chunks: Vec::new(),
    };
    let mut bytes = log::encode_head(&header, &collected.payload).expect("encodes");
    bytes.truncate(bytes.len() - size_of::<u128>());
    bytes
}

/// A right checksum, or nothing behind it is ever read.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    [bytes, &xxh3_128(bytes).to_be_bytes()].concat()
}

#[test]
fn log_objects() {
    let mut rng = rng(1);
    let made = (0..10).map(|_| {
        let records: Vec<Owned> = (0..rng.usize(..40))
            .map(|_| drawn_record(&mut rng))
            .collect();
        let bytes = head(records.iter().map(borrowed));
        let (_, read) = log::decode_head("an object", &sealed(&bytes)).expect("reads");
        assert_eq!(read.iter().map(owned).collect::<Vec<_>>(), records);
        bytes
    });
    feed_made("head", made.collect(), times(2_000), |bytes| {
        let sealed_bytes = sealed(bytes);
        for bytes in [bytes, sealed_bytes.as_slice()] {
            let _ = log::decode_header("an object", bytes);
            let _ = log::decode_chunk("an object", "an object", bytes);
            if let Ok((_, records)) = log::decode_head("an object", bytes) {
                let (_, again) = log::decode_head("an object", &sealed(&head(records.iter())))
                    .expect("reads again");
                assert!(again.iter().eq(records.iter()), "the records are others");
            }
        }
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
    let options = DatabaseOptions {
        durability: Durability::Changelog,
        ..DatabaseOptions::default()
    };
    feed("commit", times(60), |bytes| {
        let dir = directory().expect("a temporary directory");
        Database::open(dir.path(), &specs(), options.clone())
            .and_then(|db| db.close())
            .expect("a new database");
        let folder = dir.path().join("+commit");
        std::fs::create_dir(&folder).expect("a directory");
        // A right checksum, or nothing behind it is ever read.
        std::fs::write(folder.join("COMMIT"), sealed(bytes)).expect("a file");
        std::fs::write(folder.join("0-0.sst"), b"rows").expect("a file");
        if let Ok(db) = Database::open(dir.path(), &specs(), options.clone()) {
            let _ = read_all(&db);
        }
    });
}

/// Every family of a database with every kind of store.
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
        subject::spec(
            "versions",
            StoreKind::Versioned {
                history_retention: 100,
                segment_interval: 10,
            },
        ),
        subject::spec("stamped", StoreKind::TimestampedKeyValue),
        subject::spec(
            "windows",
            StoreKind::Window {
                retention: 100,
                window_size: 10,
                retain_duplicates: false,
                timestamped: true,
            },
        ),
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

/// Everything that a database can be asked for.
fn read_all(db: &Database) -> holdfast_core::Result<()> {
    let (first, last) = (Timestamp::MIN, Timestamp::MAX);
    let mut tx = db.begin()?;
    let tx = &mut tx;
    db.committed_offsets()?;
    db.metrics()?;
    for reverse in [false, true] {
        db.key_value("plain")?
            .range(tx, None, None, reverse)?
            .for_each(&mut |_, _| Step::Next)?;
        db.timestamped_key_value("stamped")?
            .range(tx, None, None, reverse)?
            .for_each(&mut |_, _| true)?;
        db.window("windows")?
            .fetch_range(tx, None, None, first, last, reverse)?
            .for_each(&mut |_, _| true)?;
        let query = SessionQuery {
            key_from: None,
            key_to: None,
            earliest_end: first,
            latest_start: last,
            reverse,
        };
        db.session("sessions")?
            .find_sessions(tx, query)?
            .for_each(&mut |_, _| true)?;
    }
    let versions = db.versioned("versions")?;
    versions
        .versions_range(tx, None, None, first, last)?
        .for_each(&mut |_, _| true)?;
    for as_of in [None, Some(Timestamp(0)), Some(last)] {
        versions.scan(tx, as_of)?.for_each(&mut |_, _| true)?;
    }
    for key in [&b""[..], b"a", b"k"] {
        versions.get(tx, key, |_| ())?;
        versions.get_as_of(tx, key, Timestamp(5), |_| ())?;
        versions.put(tx, key, Some(b"v"), Timestamp(5))?;
        versions
            .versions(tx, key, first, last, true)?
            .for_each(&mut |_, _| true)?;
    }
    for store in db.stores() {
        db.compact(&store.name)?;
    }
    Ok(())
}

#[test]
fn stored_rows() {
    let options = DatabaseOptions {
        durability: Durability::Changelog,
        ..DatabaseOptions::default()
    };
    feed("rows", times(60), |bytes| {
        let dir = directory().expect("a temporary directory");
        let path = dir.path().join("database");
        Database::open(&path, &specs(), options.clone())
            .and_then(|db| db.close())
            .expect("a new database");
        let families: Vec<_> = FAMILIES
            .iter()
            .map(|(kind, store)| FamilySpec::new(*kind, store))
            .collect();
        let rocks = RocksDb::open(&path, &families, &RocksOptions::default()).expect("RocksDB");
        let mut batch = Batch::with_capacity(bytes.len());
        for (family, key, value) in rows(bytes) {
            batch.push(
                rocks.family(&family).expect("a family").id,
                key,
                Some(value),
            );
        }
        rocks.write(&mut batch).expect("a write");
        rocks.flush(true).expect("a flush");
        rocks.close();
        drop(rocks);
        if let Ok(db) = Database::open(&path, &specs(), options.clone()) {
            let _ = read_all(&db);
        }
    });
}
