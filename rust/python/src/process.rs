//! Which process may use an object. Threads do not survive a fork, so a forked child may not use
//! what its parent opened.

use holdfast_core::{Error, ErrorKind, Result, forks};
use std::sync::OnceLock;

/// The process that opened something. The count of its forks identifies it without a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pid: u32,
    forks: u32,
}

/// The process whose threads RocksDB runs on: the first that called [`Process::of_engine`].
static ENGINE: OnceLock<Process> = OnceLock::new();

impl Process {
    /// Returns this process.
    pub fn current() -> Self {
        Self {
            pid: std::process::id(),
            forks: forks(),
        }
    }

    /// Returns the process that called this function first. Every `open` calls it, even one that
    /// fails, and so does every call on a file of offsets.
    ///
    /// RocksDB has one set of threads per process and does not detect that a fork loses them. A
    /// database opened in the child would wait for them forever, so that open is an error too. The
    /// core checks this again for the databases that a reader opens: only some reads open one.
    pub fn of_engine() -> Self {
        *ENGINE.get_or_init(Self::current)
    }

    /// Fails if the current process is another one.
    pub fn check(self) -> Result<()> {
        if self.forks == forks() {
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
}
