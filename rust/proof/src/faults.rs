//! A disk that loses power and fails on command (`faults.cc`).
#![allow(unsafe_code, reason = "the interface of the C++ file")]

use crate::commit_folder::CommitFolder;
use holdfast_core::rocks::Environment;
use std::ffi::{CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

#[repr(C)]
struct Raw {
    _private: [u8; 0],
}

unsafe extern "C" {
    fn holdfast_faults_new() -> *mut Raw;
    fn holdfast_faults_free(faults: *mut Raw);
    fn holdfast_faults_env(faults: *mut Raw) -> *mut c_void;
    fn holdfast_impatient_env() -> *mut c_void;
    fn holdfast_faults_sync_directory(faults: *mut Raw, directory: *const c_char) -> c_int;
    fn holdfast_faults_sync_file(faults: *mut Raw) -> c_int;
    fn holdfast_faults_power_off(faults: *mut Raw, after: i64);
    fn holdfast_faults_powered(faults: *mut Raw) -> c_int;
    fn holdfast_faults_fail(faults: *mut Raw, operation: c_int, after: i64, keeps_failing: c_int);
    fn holdfast_faults_seen(faults: *mut Raw, operation: c_int) -> u64;
    fn holdfast_faults_failed(faults: *mut Raw) -> u64;
    fn holdfast_faults_lose(
        faults: *mut Raw,
        directory: *const c_char,
        kept: c_int,
        entries: c_int,
        seed: u32,
    ) -> c_int;
}

/// The real disk, on which RocksDB does not sleep for a second when it met an error in the
/// background.
pub fn impatient() -> Environment {
    // SAFETY: the pointer is alive; the environment is new and has no other owner.
    unsafe { Environment::from_raw(holdfast_impatient_env()) }
}

/// What a disk is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads, and opening for them.
    Read = 0,
    /// Writes, files made, renamed and deleted.
    Write = 1,
    /// Syncs of files and directories.
    Sync = 2,
}

/// What of the bytes that nobody synced is on the disk after a loss of power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Nothing.
    Nothing = 0,
    /// Of each file a random part: a torn tail.
    Part = 1,
    /// Everything, as after a kill.
    All = 2,
    /// Of each file a random part, and zeros up to its length.
    PartThenZeros = 3,
}

/// A simulated disk. What it keeps lies in the real file system; what was not synced lies in its
/// memory.
pub struct Faults {
    disk: Arc<Disk>,
}

struct Disk {
    raw: *mut Raw,
    commit: CommitFolder,
}

// SAFETY: all of the C++ object's members are atomics or behind a mutex.
unsafe impl Send for Disk {}
// SAFETY: as above.
unsafe impl Sync for Disk {}

impl Drop for Disk {
    fn drop(&mut self) {
        // SAFETY: freed once, here.
        unsafe { holdfast_faults_free(self.raw) }
    }
}

impl Disk {
    /// What a sync does outside of RocksDB.
    fn sync(&self, path: &Path) -> bool {
        let synced = if path.is_dir() {
            let Ok(name) = CString::new(path.as_os_str().as_bytes()) else {
                return false;
            };
            // SAFETY: the pointer is alive, `name` ends with a NUL.
            unsafe { holdfast_faults_sync_directory(self.raw, name.as_ptr()) == 0 }
        } else {
            // SAFETY: the pointer is alive.
            unsafe { holdfast_faults_sync_file(self.raw) == 0 }
        };
        if synced {
            self.commit.synced(path);
        }
        synced
    }
}

impl Default for Faults {
    fn default() -> Self {
        // SAFETY: no preconditions.
        Self {
            disk: Arc::new(Disk {
                raw: unsafe { holdfast_faults_new() },
                commit: CommitFolder::default(),
            }),
        }
    }
}

impl Faults {
    /// For [`holdfast_core::DatabaseOptions`].
    pub fn environment(&self) -> Environment {
        // SAFETY: the pointer is alive; the environment is new and has no other owner, and shares
        // in the disk that it needs.
        let environment = unsafe { Environment::from_raw(holdfast_faults_env(self.disk.raw)) };
        let disk = Arc::clone(&self.disk);
        environment.with_sync(move |path| disk.sync(path))
    }

    /// From now on every operation fails, until [`Faults::lose`].
    pub fn power_off(&self) {
        // SAFETY: the pointer is alive.
        unsafe { holdfast_faults_power_off(self.disk.raw, -1) }
    }

    /// The power goes before the n-th write or sync from here.
    pub fn power_off_after(&self, operations: u64) {
        // SAFETY: the pointer is alive.
        unsafe { holdfast_faults_power_off(self.disk.raw, operations as i64) }
    }

    /// Whether there is power.
    pub fn powered(&self) -> bool {
        // SAFETY: the pointer is alive.
        unsafe { holdfast_faults_powered(self.disk.raw) != 0 }
    }

    /// The n-th operation of a kind from here fails, and with `keeps_failing` all that follow.
    pub fn fail(&self, operation: Operation, after: u64, keeps_failing: bool) {
        // SAFETY: the pointer is alive.
        unsafe {
            holdfast_faults_fail(
                self.disk.raw,
                operation as c_int,
                after as i64,
                c_int::from(keeps_failing),
            )
        }
    }

    /// No more errors.
    pub fn heal(&self) {
        for operation in [Operation::Read, Operation::Write, Operation::Sync] {
            // SAFETY: the pointer is alive.
            unsafe { holdfast_faults_fail(self.disk.raw, operation as c_int, -1, 0) }
        }
    }

    /// How many operations of a kind there were.
    pub fn seen(&self, operation: Operation) -> u64 {
        // SAFETY: the pointer is alive.
        unsafe { holdfast_faults_seen(self.disk.raw, operation as c_int) }
    }

    /// How many errors were injected.
    pub fn failed(&self) -> u64 {
        // SAFETY: the pointer is alive.
        unsafe { holdfast_faults_failed(self.disk.raw) }
    }

    /// Makes a database's directory what a machine finds that lost its power, and switches it on
    /// again. The database must be closed. With `entries`, directory entries that were made since
    /// the directory's last sync are lost too.
    pub fn lose(&self, directory: &Path, kept: Kept, entries: bool, seed: u64) {
        let Ok(name) = CString::new(directory.as_os_str().as_bytes()) else {
            return;
        };
        // SAFETY: the pointer is alive, `name` ends with a NUL.
        let failed = unsafe {
            holdfast_faults_lose(
                self.disk.raw,
                name.as_ptr(),
                kept as c_int,
                c_int::from(entries),
                seed as u32,
            )
        };
        self.disk.commit.lose(directory, kept, entries, seed);
        assert_eq!(
            failed,
            0,
            "the loss of power could not be simulated in {}",
            directory.display()
        );
    }
}
