//! The one way from Python into Rust's work.

use crate::error::{holdfast_error, to_python};
use holdfast_core::{Error, ErrorKind, Result};
use pyo3::prelude::*;
use std::any::Any;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// The process that opened something. A forked child must not use it: the threads behind it stayed in the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner(u32);

impl Owner {
    /// This process.
    pub fn current() -> Self {
        Self(std::process::id())
    }

    /// Fails in any process but the owner.
    pub fn check(self) -> Result<()> {
        let pid = std::process::id();
        if pid == self.0 {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::ForkedProcess,
            format!(
                "this was opened by process {} and cannot be used in its forked child {pid}; \
                 open it after the fork, or start the child with multiprocessing's \"spawn\"",
                self.0
            ),
        ))
    }
}

/// Does `work` without the GIL, for an owner; its error becomes the exception of that kind, and so does a panic.
///
/// Every method that reaches the engine goes through here.
pub fn run<T: Send>(py: Python<'_>, owner: Owner, work: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    owner.check().map_err(|error| to_python(py, &error))?;
    match py.detach(|| catch(work)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(to_python(py, &error)),
        Err(words) => Err(holdfast_error(py, "Holdfast", words)),
    }
}

/// A panic as words for the user; it must not unwind into an interpreter.
pub fn catch<T>(work: impl FnOnce() -> T) -> std::result::Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        format!("this is a bug in Holdfast, please report it; close the task and open it again: {}", words(&*panic))
    })
}

fn words(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(words), _) => words,
        (None, Some(words)) => words,
        (None, None) => "a panic without words",
    }
}
