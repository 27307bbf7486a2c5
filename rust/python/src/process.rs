//! Which process may use an object. Threads do not survive a fork, so a forked child may not use
//! what its parent opened.

use holdfast_core::{Error, ErrorKind, Result};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The process that opened something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pid: u32,
    forks: u32,
}

/// The number of forks between the process that imported the extension and this one. A count is
/// used because the system call for the process id takes half as long as a whole put.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Starts counting forks.
pub fn watch_forks(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let arguments = PyDict::new(py);
    arguments.set_item("after_in_child", wrap_pyfunction!(after_fork, module)?)?;
    py.import("os")?
        .call_method("register_at_fork", (), Some(&arguments))?;
    Ok(())
}

#[pyfunction]
fn after_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// The process whose threads RocksDB runs on: the first that called [`Process::of_engine`].
static ENGINE: OnceLock<Process> = OnceLock::new();

impl Process {
    /// Returns this process.
    pub fn current() -> Self {
        Self {
            pid: std::process::id(),
            forks: FORKS.load(Ordering::Relaxed),
        }
    }

    /// Returns the process that called this function first. Every open of a database calls it, even
    /// an open that fails, and so does every call on a file of offsets.
    ///
    /// RocksDB has one set of threads per process and does not detect that a fork loses them. A
    /// database opened in the child would wait for them forever, so that open is an error too.
    pub fn of_engine() -> Self {
        *ENGINE.get_or_init(Self::current)
    }

    /// Fails if the current process is another one.
    pub fn check(self) -> Result<()> {
        if self.forks == FORKS.load(Ordering::Relaxed) {
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
