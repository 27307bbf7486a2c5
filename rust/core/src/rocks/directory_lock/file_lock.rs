//! A file lock (`flock`) that belongs to one descriptor and that a forked child does not hold.
//!
//! The lock belongs to the open file description. It ends when it is unlocked, or when the last
//! copy of the descriptor is closed. An exec closes the copy of a child process. A fork does not:
//! a child that outlives a killed parent would keep the file locked. So a forked child replaces its
//! copies with descriptors of `/dev/null` before it runs any other code.

use crate::rocks::forks::at_fork;
use rustix::io::{DupFlags, dup3};
use std::cell::RefCell;
use std::fs::{File, TryLockError};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The descriptors that a forked child replaces.
struct Descriptors {
    open: Vec<RawFd>,
    /// `/dev/null`; `None` before the first file is opened.
    null: Option<File>,
}

type Locked = MutexGuard<'static, Descriptors>;

/// Locked during a fork, so that the child gets it in a usable state. Unlocking a mutex of `std`
/// allocates nothing and takes no other lock, so a child may do it.
static DESCRIPTORS: Mutex<Descriptors> = Mutex::new(Descriptors {
    open: Vec::new(),
    null: None,
});

thread_local! {
    /// The locked descriptors in the thread that forks.
    static FORKING: RefCell<Option<Locked>> = const { RefCell::new(None) };
}

fn descriptors() -> Locked {
    DESCRIPTORS.lock().unwrap_or_else(PoisonError::into_inner)
}

extern "C" fn before_fork() {
    let locked = descriptors();
    let _ = FORKING.try_with(|forking| forking.replace(Some(locked)));
}

extern "C" fn after_fork_in_parent() {
    let _ = FORKING.try_with(RefCell::take);
}

/// Makes only calls that a child of a process with several threads may make.
extern "C" fn after_fork_in_child() {
    let Ok(Some(mut descriptors)) = FORKING.try_with(RefCell::take) else {
        return;
    };
    let Descriptors { open, null } = &mut *descriptors;
    if let Some(null) = null {
        for descriptor in open.iter() {
            // SAFETY: a `FileLock` owns the descriptor and removes it from the list before it
            // closes it.
            let mut copy = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(*descriptor) });
            let _ = dup3(&*null, &mut copy, DupFlags::CLOEXEC);
        }
    }
    open.clear();
}

impl Descriptors {
    /// Opens `/dev/null` and registers the functions above, once.
    fn replace_at_forks(&mut self) -> io::Result<()> {
        if self.null.is_some() {
            return Ok(());
        }
        let null = File::open("/dev/null")?;
        at_fork(
            Some(before_fork),
            Some(after_fork_in_parent),
            Some(after_fork_in_child),
        )?;
        self.null = Some(null);
        Ok(())
    }
}

/// An open file that can be locked.
pub(super) struct FileLock {
    pub(super) file: File,
}

impl FileLock {
    /// Opens a file for reads and writes; creates it if it is missing.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut descriptors = descriptors();
        descriptors.replace_at_forks()?;
        let file = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path)?;
        descriptors.open.push(file.as_raw_fd());
        Ok(Self { file })
    }

    /// Locks the file; returns false if another open of it, in any process, has locked it.
    pub(super) fn try_lock(&self) -> io::Result<bool> {
        match self.file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        let descriptor = self.file.as_raw_fd();
        descriptors().open.retain(|open| *open != descriptor);
        // The close is not enough: a child between its fork and its exec may have a copy of the
        // descriptor. In a forked child this unlocks `/dev/null`.
        let _ = self.file.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_another_descriptor_does_not_unlock_the_file() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("file");
        let lock = FileLock::open(&path)?;
        assert!(lock.try_lock()?);
        std::fs::read(&path)?;
        let second = FileLock::open(&path)?;
        assert!(!second.try_lock()?);
        drop(second);
        assert!(!FileLock::open(&path)?.try_lock()?);
        drop(lock);
        assert!(FileLock::open(&path)?.try_lock()?);
        Ok(())
    }
}
