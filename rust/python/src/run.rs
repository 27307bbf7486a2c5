//! The one way from Python into Rust's work.

use crate::error::{holdfast_error, to_python};
use holdfast_core::{Error, ErrorKind, Result};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The process that opened something. A forked child must not use it: the threads behind it stayed
/// in the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pid: u32,
    forks: u32,
}

/// Forks between the process that imported the extension and this one. Counted, since asking the
/// kernel for the process's number costs half as much as a whole put.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Counts forks from now on.
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

/// The process whose threads RocksDB runs on: the first that opened a database.
static ENGINE: OnceLock<Owner> = OnceLock::new();

impl Owner {
    /// This process.
    pub fn current() -> Self {
        Self {
            pid: std::process::id(),
            forks: FORKS.load(Ordering::Relaxed),
        }
    }

    /// This process, as the one that opens databases. RocksDB keeps one set of threads a process
    /// and believes that it still has them after a fork: a database opened in the child would wait
    /// for them for ever, so that is an error too.
    pub fn of_engine() -> Self {
        *ENGINE.get_or_init(Self::current)
    }

    /// Fails in any process but the owner.
    pub fn check(self) -> Result<()> {
        if self.forks == FORKS.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::ForkedProcess,
            format!(
                "process {} has opened a database, and this is its forked child {}, where RocksDB \
                 has no threads; start the child with multiprocessing's \"spawn\", or fork before \
                 the first database is opened; this child must end with os._exit, as \
                 multiprocessing's do, since at an ordinary end RocksDB joins threads that are not \
                 here and may crash",
                self.pid,
                std::process::id()
            ),
        ))
    }
}

/// Does `work` without the GIL, for an owner; its error becomes the exception of that kind, and so
/// does a panic.
///
/// Every method that reaches the engine goes through here.
pub fn run<T: Send>(
    py: Python<'_>,
    owner: Owner,
    work: impl FnOnce() -> Result<T> + Send,
) -> PyResult<T> {
    owner.check().map_err(|error| to_python(py, &error))?;
    match py.detach(|| catch(work)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(to_python(py, &error)),
        Err(words) => Err(holdfast_error(py, "Holdfast", words)),
    }
}

/// Lets go of something in a Python object's drop, without the GIL: it may wait for a thread's end
/// or for the disk.
pub fn let_go(work: impl FnOnce() + Send) {
    // The thread is attached, since Python is what drops the object; only the token is asked for.
    Python::try_attach(|py| py.detach(work));
}

/// A panic as words for the user; it must not unwind into an interpreter.
pub fn catch<T>(work: impl FnOnce() -> T) -> std::result::Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        format!(
            "this is a bug in Holdfast, please report it; close the database and open it again: {}",
            words(&*panic)
        )
    })
}

fn words(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(words), _) => words,
        (None, Some(words)) => words,
        (None, None) => "a panic without words",
    }
}
