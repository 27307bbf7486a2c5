//! A disk that loses power and fails on command (`faults.cc`).
#![allow(unsafe_code, reason = "the interface of the C++ file")]

use crate::commit_folder::CommitFolder;
use crate::unsynced::UnsyncedBytes;
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
        unsynced: c_int,
        entries: c_int,
        seed: u32,
    ) -> c_int;
}

/// Returns the real disk, without RocksDB's sleep of a second after an error in the background.
pub fn without_retry_delay() -> Environment {
    // SAFETY: the pointer is alive; the environment is new and has no other owner.
    unsafe { Environment::from_raw(holdfast_impatient_env()) }
}

/// A kind of operation of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads, and opening files for reading.
    Read = 0,
    /// Writes, and creating, truncating, linking, renaming and deleting files.
    Write = 1,
    /// Syncs of files and directories.
    Sync = 2,
}

/// A simulated disk. Synced data is in the real file system; unsynced data is in memory.
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
    /// Syncs a file or directory that is written outside of RocksDB.
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
    /// Returns this disk as an environment for [`holdfast_core::DatabaseOptions`].
    pub fn environment(&self) -> Environment {
        // SAFETY: the pointer is alive; the environment is new and has no other owner. The closure
        // below keeps the disk alive.
        let environment = unsafe { Environment::from_raw(holdfast_faults_env(self.disk.raw)) };
        let disk = Arc::clone(&self.disk);
        environment.with_sync(move |path| disk.sync(path))
    }

    /// Makes every operation fail until [`Faults::lose`].
    pub fn power_off(&self) {
        // SAFETY: the pointer is alive.
        unsafe { holdfast_faults_power_off(self.disk.raw, -1) }
    }

    /// Turns the power off before the n-th write or sync from now on.
    pub fn power_off_after(&self, operations: u64) {
        // SAFETY: the pointer is alive.
        unsafe { holdfast_faults_power_off(self.disk.raw, operations as i64) }
    }

    /// Returns whether the power is on.
    pub fn powered(&self) -> bool {
        // SAFETY: the pointer is alive.
        unsafe { holdfast_faults_powered(self.disk.raw) != 0 }
    }

    /// Makes the n-th operation of a kind from now on fail, and with `keeps_failing` all later
    /// ones.
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

    /// Stops injecting errors.
    pub fn heal(&self) {
        for operation in [Operation::Read, Operation::Write, Operation::Sync] {
            // SAFETY: the pointer is alive.
            unsafe { holdfast_faults_fail(self.disk.raw, operation as c_int, -1, 0) }
        }
    }

    /// Returns how many operations of a kind there were.
    pub fn seen(&self, operation: Operation) -> u64 {
        // SAFETY: the pointer is alive.
        unsafe { holdfast_faults_seen(self.disk.raw, operation as c_int) }
    }

    /// Returns how many errors were injected.
    pub fn failed(&self) -> u64 {
        // SAFETY: the pointer is alive.
        unsafe { holdfast_faults_failed(self.disk.raw) }
    }

    /// Simulates a loss of power in a database's directory: drops unsynced data, then turns the
    /// power on.
    ///
    /// The database must be closed. With `entries`, directory entries that were made since the
    /// directory's last sync are lost, too.
    pub fn lose(&self, directory: &Path, unsynced: UnsyncedBytes, entries: bool, seed: u64) {
        let Ok(name) = CString::new(directory.as_os_str().as_bytes()) else {
            return;
        };
        // SAFETY: the pointer is alive, `name` ends with a NUL.
        let failed = unsafe {
            holdfast_faults_lose(
                self.disk.raw,
                name.as_ptr(),
                unsynced as c_int,
                c_int::from(entries),
                seed as u32,
            )
        };
        self.disk.commit.lose(directory, unsynced, entries, seed);
        assert_eq!(
            failed,
            0,
            "the loss of power could not be simulated in {}",
            directory.display()
        );
    }
}
