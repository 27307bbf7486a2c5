//! A second opener of a directory, in this process and in another one, while a commit is running.

use crate::support::{at, directory, open, options, specs, transaction, turn};
use holdfast_core::failpoint::{Action, Failpoint};
use holdfast_core::{Database, Durability, ErrorKind};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The environment variable with the directory that the child opens.
const CHILD: &str = "HOLDFAST_SECOND_OPENER";
const TEST: &str = "second_opener::second_opener_changes_nothing_while_a_commit_runs";

/// The inode and the contents of each file of the running commit. The database's own files are left
/// out: its background threads add and remove some.
fn files(folder: &Path) -> BTreeMap<PathBuf, (u64, Vec<u8>)> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let (path, metadata) = (entry.path(), entry.metadata().unwrap());
        if metadata.is_dir() {
            found.append(&mut files(&path));
        } else {
            let contents = std::fs::read(&path).unwrap();
            found.insert(path, (metadata.ino(), contents));
        }
    }
    found
}

/// Tries to open the directory, here and in a child; both must fail with the lock's error.
fn assert_locked(path: &Path) {
    let before = files(&path.join("+commit"));
    let holder = format!("process {}", std::process::id());
    let error = Database::open(path, &specs(), options(Durability::Sync, 0))
        .err()
        .unwrap();
    assert_eq!(error.kind(), ErrorKind::StoreLocked, "{error}");
    assert!(error.to_string().contains(&holder), "{error}");
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", TEST, "--nocapture"])
        .env(CHILD, path)
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&child.stdout);
    assert!(output.contains("StoreLocked"), "{output}");
    assert!(output.contains(&holder), "{output}");
    let after = files(&path.join("+commit"));
    let names = |files: &BTreeMap<PathBuf, _>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&after), names(&before));
    assert!(after == before, "a file has changed");
}

/// Once, a removed file was put back from the commit's files, and a damaged commit file was
/// reported instead of the lock.
#[test]
fn second_opener_changes_nothing_while_a_commit_runs() {
    if let Some(path) = std::env::var_os(CHILD) {
        let opened = Database::open(Path::new(&path), &specs(), options(Durability::Sync, 0));
        let error = opened.err().unwrap();
        println!("{:?}: {error}", error.kind());
        return;
    }
    let _turn = turn();
    let dir = directory();
    let db = open(dir.path(), 0);
    transaction(&db, 1);
    Failpoint::BeforeCommitFileRemoval.arm(Action::Hold, 0);
    std::thread::scope(|threads| {
        let commit = threads.spawn(|| db.commit(at(1)));
        while Failpoint::is_armed() {
            std::thread::yield_now();
        }
        let tried = std::panic::catch_unwind(|| {
            assert_locked(dir.path());
            let commit_file = dir.path().join("+commit/COMMIT");
            let whole = std::fs::read(&commit_file).unwrap();
            std::fs::write(&commit_file, "half").unwrap();
            assert_locked(dir.path());
            std::fs::write(&commit_file, whole).unwrap();
            // A file that RocksDB has ingested: an open would put it back from `+commit`.
            let ingested = std::fs::read_dir(dir.path())
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .find(|path| path.extension().is_some_and(|name| name == "sst"))
                .unwrap();
            let aside = dir.path().join("aside");
            std::fs::rename(&ingested, &aside).unwrap();
            assert_locked(dir.path());
            assert!(!ingested.exists(), "the file was put back");
            std::fs::rename(&aside, &ingested).unwrap();
        });
        Failpoint::release();
        commit.join().unwrap().unwrap();
        tried.unwrap();
    });
    db.close().unwrap();
    open(dir.path(), 0).close().unwrap();
}

/// The lock belongs to the open database. A close releases it even if views are still held, and a
/// failed open releases it, too.
#[test]
fn directory_is_free_after_a_close_and_after_a_failed_open() {
    let _turn = turn();
    let dir = directory();
    let db = open(dir.path(), 0);
    let _view = db.begin().unwrap();
    db.close().unwrap();
    Failpoint::AfterOpen.arm(Action::Error, 0);
    let failed = Database::open(dir.path(), &specs(), options(Durability::Sync, 0));
    assert!(Failpoint::disarm());
    assert_eq!(failed.err().unwrap().kind(), ErrorKind::Io);
    open(dir.path(), 0).close().unwrap();
}
