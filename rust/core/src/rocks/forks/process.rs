//! Which process may use an object. Threads do not survive a fork, so a forked child may not use
//! what its parent opened.

use super::forks;
use crate::error::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicU64, Ordering};

/// The process that opened something. The count of its forks identifies it without a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pid: u32,
    forks: u32,
}

/// The value of [`ENGINE`] until it is set. No process has the id 0.
const NONE: u64 = 0;

/// The process whose threads RocksDB runs on, packed into a number: the first that called
/// [`Process::of_engine`]. No lock: a child could inherit it locked.
static ENGINE: AtomicU64 = AtomicU64::new(NONE);

impl Process {
    /// Returns this process. It differs from its forked children if
    /// [`watch_forks`](crate::watch_forks) was called before they were made.
    pub fn current() -> Self {
        Self {
            pid: std::process::id(),
            forks: forks(),
        }
    }

    /// Returns the process that called this function first. Every open of a database calls it, even
    /// one that fails, and so does every call of the binding on a file of offsets.
    ///
    /// RocksDB has one set of threads per process and does not detect that a fork loses them. A
    /// database opened in the child would wait for them forever, so that open is an error too.
    pub fn of_engine() -> Self {
        let now = Self::current();
        let first =
            ENGINE.compare_exchange(NONE, now.packed(), Ordering::Relaxed, Ordering::Relaxed);
        first.map_or_else(Self::unpacked, |_| now)
    }

    /// Whether it is the current process.
    #[inline]
    pub fn is_current(self) -> bool {
        self.forks == forks()
    }

    /// Checks that it is the current process.
    ///
    /// # Errors
    /// `ForkedProcess`, which names both processes.
    pub fn check(self) -> Result<()> {
        if self.is_current() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::ForkedProcess,
            format!(
                "process {} has used a database, reader or connection, and this is its forked \
                 child {}, which does not have that process's threads; start the child with \
                 multiprocessing's \"spawn\", or fork before the first database is opened; this \
                 child must end with os._exit, as children of multiprocessing do: at an ordinary \
                 exit, RocksDB joins threads that the child does not have, and may crash",
                self.pid,
                std::process::id()
            ),
        ))
    }

    fn packed(self) -> u64 {
        (u64::from(self.pid) << 32) | u64::from(self.forks)
    }

    fn unpacked(number: u64) -> Self {
        Self {
            pid: (number >> 32) as u32,
            forks: number as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_of_the_engine_is_the_first_one() {
        let first = Process::of_engine();
        assert!(first.is_current());
        assert_eq!(Process::of_engine(), first);
        let child = Process {
            pid: u32::MAX,
            forks: first.forks + 1,
        };
        assert_eq!(Process::unpacked(child.packed()), child);
        assert!(first.check().is_ok());
        let error = child.check().err().map(|error| error.to_string());
        let pid = u32::MAX.to_string();
        assert!(error.is_some_and(|text| text.contains(&pid)));
    }
}
