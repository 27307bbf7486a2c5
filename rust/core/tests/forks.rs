//! A forked child of the process that opened a database. The only test of its process: nothing else
//! here counts forks or holds a lock at the fork.
#![expect(unsafe_code, reason = "no safe function forks")]

use holdfast_core::{Database, DatabaseOptions, ErrorKind, Result};
use rustix::process::{Pid, WaitOptions, waitpid};
use std::ffi::c_int;

unsafe extern "C" {
    fn fork() -> c_int;
    fn _exit(status: c_int) -> !;
}

/// Forks, and returns what `work` returned in the child.
fn in_child(work: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child only runs `work`.
    let child = unsafe { fork() };
    if child == 0 {
        let status = c_int::from(!work());
        // SAFETY: ends the child, without the destructors of its parent.
        unsafe { _exit(status) }
    }
    let (_, status) = waitpid(Pid::from_raw(child), WaitOptions::empty())
        .expect("a child")
        .expect("has ended");
    status.exit_status() == Some(0)
}

#[test]
fn forked_child_cannot_use_its_parents_database() -> Result<()> {
    // A database in memory locks no directory.
    let db = Database::open_in_memory(&[], DatabaseOptions::default())?;
    let is_refused = || {
        db.begin()
            .is_err_and(|error| error.kind() == ErrorKind::ForkedProcess)
    };
    assert!(in_child(is_refused));
    assert!(in_child(|| in_child(is_refused)), "the child of a child");
    assert!(!is_refused());
    // RocksDB's threads do not exist in the child, even if the parent has closed its database.
    drop(db);
    let cannot_open = || {
        Database::open_in_memory(&[], DatabaseOptions::default())
            .is_err_and(|error| error.kind() == ErrorKind::ForkedProcess)
    };
    assert!(in_child(cannot_open));
    assert!(!cannot_open());
    Ok(())
}
