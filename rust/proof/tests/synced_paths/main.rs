//! The syncs that the engine makes without RocksDB are real ones, in the promised order.
//!
//! The simulated disk of `power_loss` does not see these syncs, only the engine's report of each.
//! Text files of offsets and the names of checkpoints are not on that disk.
#![cfg(target_os = "linux")]

mod hook;

use holdfast_core::{
    Database, DatabaseOptions, Durability, Offset, Offsets, TopicPartition, remove_offsets,
    write_offsets,
};
use holdfast_proof::{directory, runner, spilled, without_retry_delay};
use hook::FileCall::{self, Removed, Renamed, Reported, Synced};
use hook::calls_of;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// A temporary directory and its path as `/proc` shows it.
fn new_folder() -> (TempDir, PathBuf) {
    let dir = directory().expect("a temporary directory");
    let path = dir.path().canonicalize().expect("the directory exists");
    (dir, path)
}

/// The sorted files in a folder.
fn sorted_files(folder: &Path) -> BTreeSet<PathBuf> {
    std::fs::read_dir(folder)
        .expect("the folder exists")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "sst"))
        .collect()
}

fn check_spilled_commit(durability: Durability) {
    let (_dir, folder) = new_folder();
    let commit = folder.join("+commit");
    let draft = commit.join("COMMIT.draft");
    // The sorted files when the draft is synced: the commit removes them at its end.
    let sorted = Arc::new(Mutex::new(BTreeSet::new()));
    let environment = without_retry_delay().with_sync({
        let (commit, draft, sorted) = (commit.clone(), draft.clone(), Arc::clone(&sorted));
        move |path: &Path| {
            hook::record(Reported(path.to_owned()));
            if path == draft {
                *sorted.lock().expect("no panic") = sorted_files(&commit);
            }
            true
        }
    });
    let options = DatabaseOptions {
        environment: Some(environment),
        ..runner::options(durability)
    };
    let db = Database::open(&folder, &spilled::specs(), options).expect("a new database");
    spilled::spill(&db, 1).expect("a transaction in files");
    let calls = calls_of(|| spilled::commit(&db, 1).expect("a commit"));

    for (n, call) in calls.iter().enumerate() {
        if let Reported(path) = call {
            let before = n.checked_sub(1).map(|before| &calls[before]);
            let real = Synced(path.clone());
            assert_eq!(before, Some(&real), "{durability:?}, call {n}: {calls:#?}");
        }
    }

    // Without the syncs of RocksDB.
    let own: Vec<FileCall> = calls
        .iter()
        .filter(|call| match call {
            Reported(_) => true,
            Renamed(old, _) => old.starts_with(&commit),
            Synced(_) | Removed(_) => false,
        })
        .cloned()
        .collect();
    let promised = [
        Reported(folder.clone()),
        Reported(draft.clone()),
        // The names of the sorted files.
        Reported(commit.clone()),
        Renamed(draft.clone(), commit.join("COMMIT")),
        Reported(commit.clone()),
        // Before the first file is ingested.
        Reported(commit),
        Reported(folder),
    ];
    assert!(own.starts_with(&promised), "{durability:?}: {own:#?}");

    let place = |path: &Path| {
        calls
            .iter()
            .position(|call| matches!(call, Synced(synced) if synced == path))
    };
    let sorted = sorted.lock().expect("no panic");
    assert!(!sorted.is_empty(), "{durability:?}: no sorted file");
    for file in sorted.iter() {
        assert!(
            place(file).is_some_and(|n| Some(n) < place(&draft)),
            "{durability:?}: {} is not synced before the commit file: {calls:#?}",
            file.display()
        );
    }
}

#[test]
fn spilled_commit_syncs_its_files_and_their_names_in_order() {
    check_spilled_commit(Durability::Sync);
    check_spilled_commit(Durability::Changelog);
}

#[test]
fn checkpoint_syncs_the_folder_that_has_its_name() {
    let (_dir, folder) = new_folder();
    let options = runner::options(Durability::Changelog);
    let db = Database::open(&folder.join("database"), &spilled::specs(), options)
        .expect("a new database");
    spilled::spill(&db, 1)
        .and_then(|()| spilled::commit(&db, 1))
        .expect("a commit");
    let copy = folder.join("copy");
    let calls = calls_of(|| db.checkpoint(&copy).expect("a checkpoint"));
    let named = calls
        .iter()
        .position(|call| matches!(call, Renamed(_, new) if *new == copy))
        .expect("RocksDB renames the finished copy");
    assert!(calls[named..].contains(&Synced(folder)), "{calls:#?}");
}

#[test]
fn offsets_are_synced_before_their_file_gets_its_name() {
    let (_dir, folder) = new_folder();
    let file = folder.join(".checkpoint_rates");
    let draft = folder.join(".checkpoint_rates+new");
    let partition = TopicPartition {
        topic: "rates-changelog".into(),
        partition: 0,
    };
    // The second file replaces the first.
    for offset in [41, 42] {
        let offsets = Offsets::from([(partition.clone(), Offset(offset))]);
        let calls = calls_of(|| write_offsets(&file, &offsets).expect("a new file"));
        let promised = [
            Synced(draft.clone()),
            Renamed(draft.clone(), file.clone()),
            Synced(folder.clone()),
        ];
        assert_eq!(calls, promised);
    }
    let calls = calls_of(|| remove_offsets(&file).expect("the file exists"));
    assert_eq!(calls, [Removed(file), Synced(folder)]);
}
