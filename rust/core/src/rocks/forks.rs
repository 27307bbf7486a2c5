//! Counts forks, so that a forked child is recognized without a system call (`forks/process.rs`).
//!
//! RocksDB's threads do not survive a fork, so every call on a database checks whether its process
//! is a child. The system call for the process id takes half as long as a put; the count is a read
//! of memory.

pub(super) mod process;

use std::ffi::c_int;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A function that the C library calls at a fork. It must be one that a child of a process with
/// several threads may call.
pub(super) type AtFork = extern "C" fn();

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<AtFork>,
        parent: Option<AtFork>,
        child: Option<AtFork>,
    ) -> c_int;
}

/// The forks between this process and the ancestor that began to count.
static FORKS: AtomicU32 = AtomicU32::new(0);

static IS_WATCHING: AtomicBool = AtomicBool::new(false);

/// Starts counting forks; later calls do nothing.
///
/// A child that is made without the functions of `pthread_atfork` is not counted: by `vfork`, by
/// `posix_spawn` or by the bare system call. The first two only execute another program.
///
/// # Errors
/// If the C library has no memory for another function.
pub fn watch_forks() -> io::Result<()> {
    // Two threads may both register the function. Then a fork counts twice, which does no harm. A
    // lock would: a child could inherit it locked.
    if !IS_WATCHING.load(Ordering::Acquire) {
        at_fork(None, None, Some(count_fork))?;
        IS_WATCHING.store(true, Ordering::Release);
    }
    Ok(())
}

extern "C" fn count_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Returns a number that differs between a process and its forked children, once the process has
/// called [`watch_forks`].
fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Registers functions that the C library calls before each fork, and after it in the parent and in
/// the child.
pub(super) fn at_fork(
    prepare: Option<AtFork>,
    parent: Option<AtFork>,
    child: Option<AtFork>,
) -> io::Result<()> {
    // SAFETY: the functions are never unloaded while they are registered: the C library removes
    // them with the shared object that they are in.
    match unsafe { pthread_atfork(prepare, parent, child) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}
