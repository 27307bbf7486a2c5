//! The space of versions that no read can return: it is freed in the background, and no other
//! version is removed.

use holdfast_core::{
    Database, DatabaseOptions, FigureValue, OffsetChange, StoreKind, StoreSpec, Timestamp,
};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const KEYS: i64 = 1_000;
const ROWS: i64 = 60_000;

fn open(dir: &Path) -> Arc<Database> {
    open_with(dir, &[])
}

fn open_with(dir: &Path, rocksdb_options: &[(&str, &str)]) -> Arc<Database> {
    let kind = StoreKind::Versioned {
        history_retention: ROWS,
        segment_interval: ROWS / 24,
    };
    Database::open(
        dir,
        &[StoreSpec::new("v", kind)],
        DatabaseOptions {
            rocksdb_options: rocksdb_options
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            ..DatabaseOptions::default()
        },
    )
    .unwrap()
}

/// An incompressible value.
fn value(n: i64) -> [u8; 128] {
    let mut state = n as u64;
    std::array::from_fn(|_| {
        state = state
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 56) as u8
    })
}

fn put(db: &Database, n: i64, time: i64) {
    let mut tx = db.transaction().unwrap();
    db.versioned("v")
        .unwrap()
        .put(
            &mut tx,
            &(n % KEYS).to_be_bytes(),
            Some(&value(n)),
            Timestamp(time),
        )
        .unwrap();
}

/// Returns a database with the versions of one retention, in files.
fn filled(dir: &Path) -> Arc<Database> {
    fill(open(dir))
}

fn fill(db: Arc<Database>) -> Arc<Database> {
    (0..ROWS).for_each(|n| put(&db, n, n));
    db.commit(OffsetChange::Keep).unwrap();
    db.flush(true).unwrap();
    db
}

fn put_later(db: &Database, time: i64) {
    put(db, 0, time);
    db.commit(OffsetChange::Keep).unwrap();
}

/// Checks that each key has its newest version.
fn check_newest(db: &Database, later: i64) {
    let mut tx = db.begin().unwrap();
    let store = db.versioned("v").unwrap();
    for key in 0..KEYS {
        let newest = if key == 0 {
            (value(0), later)
        } else {
            (value(ROWS - KEYS + key), ROWS - KEYS + key)
        };
        let found = |found: Option<holdfast_core::Version<'_>>| {
            found.map(|version| (version.value.to_vec(), version.timestamp.0))
        };
        assert_eq!(
            store.get(&mut tx, &key.to_be_bytes(), found).unwrap(),
            Some((newest.0.to_vec(), newest.1)),
            "key {key}"
        );
    }
}

fn file_bytes(db: &Database) -> u64 {
    match db.metrics().unwrap().get("file-bytes") {
        Some(FigureValue::Whole(bytes)) => bytes,
        other => panic!("file-bytes is {other:?}"),
    }
}

#[test]
fn expired_versions_are_removed_in_the_background() {
    let dir = tempfile::tempdir().unwrap();
    let db = filled(dir.path());
    let before = file_bytes(&db);
    assert!(before > 5 << 20, "{before}");
    put_later(&db, 10 * ROWS);
    // The test compacts nothing. The background thread needs a time that depends on the machine;
    // without the thread the space is never freed.
    let begin = Instant::now();
    let mut after = before;
    while after > before / 10 && begin.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(20));
        after = file_bytes(&db);
    }
    assert!(after <= before / 10, "{after} of {before}");
    check_newest(&db, 10 * ROWS);
}

/// The thread has a stack of 256 KiB. The strongest compressors that a user can choose work on the
/// heap; a stack that overflows ends the process.
#[test]
fn strongest_compressors_fit_into_the_stack_of_the_rewriting_thread() {
    const DICTIONARY: &str = "{level=22;max_dict_bytes=1048576;zstd_max_train_bytes=8388608}";
    for [compression, settings] in [
        ["kZSTD", DICTIONARY],
        [
            "kZSTD",
            "{level=22;max_dict_bytes=1048576;use_zstd_dict_trainer=false}",
        ],
        ["kLZ4HCCompression", "{level=12;max_dict_bytes=65536}"],
    ] {
        let dir = tempfile::tempdir().unwrap();
        let db = fill(open_with(
            dir.path(),
            &[("compression", compression), ("compression_opts", settings)],
        ));
        let before = file_bytes(&db);
        // A third of the rows expires, and the thread compresses the others.
        put_later(&db, ROWS + ROWS / 3);
        let begin = Instant::now();
        while file_bytes(&db) > before * 3 / 4 && begin.elapsed() < Duration::from_secs(120) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let after = file_bytes(&db);
        assert!(
            after <= before * 3 / 4,
            "{compression} {settings}: {after} of {before}"
        );
        check_newest(&db, ROWS + ROWS / 3);
    }
}

#[test]
fn small_files_that_do_not_overlap_are_merged() {
    let dir = tempfile::tempdir().unwrap();
    let (db, count) = (open(dir.path()), 1_000);
    for n in 0..count {
        // One key: its versions are ordered by time.
        put(&db, n * KEYS, n);
        db.commit(OffsetChange::Keep).unwrap();
        db.flush(true).unwrap();
    }
    let is_table =
        |file: &std::path::PathBuf| file.extension().is_some_and(|extension| extension == "sst");
    let tables = || {
        std::fs::read_dir(dir.path())
            .unwrap()
            .map(|file| file.unwrap().path())
            .filter(is_table)
            .count()
    };
    let (before, begin) = (tables(), Instant::now());
    assert!(before > 64, "{before}");
    let mut later = ROWS;
    while tables() > 40 && begin.elapsed() < Duration::from_secs(120) {
        // Each segment may leave a file.
        later += ROWS / 24;
        put_later(&db, later);
        std::thread::sleep(Duration::from_secs(1));
    }
    assert!(tables() <= 40, "{} of {before} files", tables());
    let mut tx = db.begin().unwrap();
    let newest = db
        .versioned("v")
        .unwrap()
        .get(&mut tx, &0_i64.to_be_bytes(), |found| {
            found.map(|version| version.value.to_vec())
        });
    assert_eq!(newest.unwrap(), Some(value(0).to_vec()));
}

#[test]
fn database_closes_during_a_rewrite() {
    let dir = tempfile::tempdir().unwrap();
    let mut db = filled(dir.path());
    for n in 10..20 {
        put_later(&db, n * ROWS);
        db.close().unwrap();
        drop(db);
        db = open(dir.path());
        check_newest(&db, n * ROWS);
        // A database that is dropped instead of closed releases its directory, too.
        put_later(&db, n * ROWS + ROWS / 2);
        drop(db);
        db = open(dir.path());
        check_newest(&db, n * ROWS + ROWS / 2);
    }
}

/// What the thread that rewrites files has logged about the store `rests`.
struct Rewrites(Mutex<Vec<String>>);

static REWRITES: Rewrites = Rewrites(Mutex::new(Vec::new()));

impl log::Log for Rewrites {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let words = record.args().to_string();
        if words.starts_with("store rests:") {
            self.0.lock().push(words);
        }
    }

    fn flush(&self) {}
}

impl Rewrites {
    /// The segments of the rewrites, each with the segment in which the next one is due.
    fn segments(&self) -> Vec<(i64, i64)> {
        let parse = |words: &String| {
            let (_, numbers) = words.split_once(" in segment ")?;
            let (segment, next) = numbers.split_once(", again in ")?;
            Some((segment.parse().ok()?, next.parse().ok()?))
        };
        let messages = self.0.lock();
        let rewrites = messages.iter().filter(|words| !words.contains("read: 0,"));
        rewrites.map(|words| parse(words).unwrap()).collect()
    }
}

/// Each commit enters a segment of its own. The next rewrite waits until one row in 64 has ended,
/// but for half the retention at most.
#[test]
fn files_are_not_rewritten_before_the_segment_in_which_that_is_due() {
    // More than 4 MiB: smaller tables are not rewritten.
    const ROWS: i64 = 40_000;
    log::set_logger(&REWRITES).unwrap();
    log::set_max_level(log::LevelFilter::Debug);
    let dir = tempfile::tempdir().unwrap();
    let kind = StoreKind::Versioned {
        history_retention: ROWS,
        segment_interval: 1,
    };
    let stores = [StoreSpec::new("rests", kind)];
    let db = Database::open(dir.path(), &stores, DatabaseOptions::default()).unwrap();
    let rests = db.versioned("rests").unwrap();
    let put = |time: i64| {
        let key = (time % 100).to_be_bytes();
        db.write(|tx| rests.put(tx, &key, Some(&value(time)), Timestamp(time)))
            .unwrap();
    };
    (0..ROWS + 100).for_each(put);
    db.commit(OffsetChange::Keep).unwrap();
    db.flush(true).unwrap();
    let mut time = ROWS + 100;
    let mut commit = || {
        put(time);
        db.commit(OffsetChange::Keep).unwrap();
        time += 1;
    };
    while REWRITES.segments().len() < 2 {
        commit();
    }
    (0..100).for_each(|_| commit());
    db.close().unwrap();
    let rewrites = REWRITES.segments();
    assert!(
        rewrites.iter().any(|(segment, next)| *next > segment + 10),
        "{rewrites:?}"
    );
    for pair in rewrites.windows(2) {
        assert!(pair[0].1 <= pair[1].0, "{rewrites:?}");
    }
}
