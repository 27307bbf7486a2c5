//! Replaces functions of the C library in this process, and records their calls. The files are
//! still synced, renamed and removed.
#![allow(unsafe_code, reason = "functions of the C library are replaced")]

use rustix::io::Result;
use std::cell::RefCell;
use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A call that returned without an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileCall {
    /// `fsync` or `fdatasync` of a file or a folder.
    Synced(PathBuf),
    /// `rename`, with the old path and the new one.
    Renamed(PathBuf, PathBuf),
    /// `unlink`.
    Removed(PathBuf),
    /// The call with which the engine reports a sync to a simulated disk.
    Reported(PathBuf),
}

thread_local! {
    static CALLS: RefCell<Option<Vec<FileCall>>> = const { RefCell::new(None) };
}

/// Calls `f`; returns the calls that this thread made meanwhile.
pub fn calls_of(f: impl FnOnce()) -> Vec<FileCall> {
    CALLS.set(Some(Vec::new()));
    f();
    CALLS.take().unwrap_or_default()
}

/// Records a call of this thread.
pub fn record(call: FileCall) {
    // A thread that ends has no list any more.
    let _ = CALLS.try_with(|calls| {
        if let Some(calls) = calls.borrow_mut().as_mut() {
            calls.push(call);
        }
    });
}

unsafe extern "C" {
    fn __errno_location() -> *mut c_int;
}

#[unsafe(no_mangle)]
extern "C" fn fsync(file: c_int) -> c_int {
    // SAFETY: the caller's descriptor is open during the call.
    let done = rustix::fs::fsync(unsafe { BorrowedFd::borrow_raw(file) });
    returned(done, || synced(file))
}

#[unsafe(no_mangle)]
extern "C" fn fdatasync(file: c_int) -> c_int {
    // SAFETY: the caller's descriptor is open during the call.
    let done = rustix::fs::fdatasync(unsafe { BorrowedFd::borrow_raw(file) });
    returned(done, || synced(file))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rename(old: *const c_char, new: *const c_char) -> c_int {
    // SAFETY: the caller's strings end with a NUL.
    let (old, new) = unsafe { (CStr::from_ptr(old), CStr::from_ptr(new)) };
    returned(rustix::fs::rename(old, new), || {
        Some(FileCall::Renamed(path(old), path(new)))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn unlink(name: *const c_char) -> c_int {
    // SAFETY: the caller's string ends with a NUL.
    let name = unsafe { CStr::from_ptr(name) };
    returned(rustix::fs::unlink(name), || {
        Some(FileCall::Removed(path(name)))
    })
}

fn synced(file: c_int) -> Option<FileCall> {
    let path = std::fs::read_link(format!("/proc/self/fd/{file}")).ok()?;
    Some(FileCall::Synced(path))
}

fn path(name: &CStr) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(name.to_bytes()))
}

/// Records a call that succeeded; returns what the C function returns.
fn returned(done: Result<()>, call: impl FnOnce() -> Option<FileCall>) -> c_int {
    match done {
        Ok(()) => {
            if let Some(call) = call() {
                record(call);
            }
            0
        }
        Err(error) => {
            // SAFETY: the address is this thread's own.
            unsafe { *__errno_location() = error.raw_os_error() };
            -1
        }
    }
}
