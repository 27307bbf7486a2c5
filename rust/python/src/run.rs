//! The only way from Python into Rust's work. It catches panics and maps errors. It releases the
//! GIL, unless the release would take longer than the work.

use crate::error::{holdfast_error, to_python};
use crate::messages::with_messages_after;
use holdfast_core::{Process, Result, panic_message};
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `work` without the GIL; fails if the current process is not `process`.
///
/// An error becomes the exception of its kind, a panic a `HoldfastError`.
pub fn run<T: Send>(
    py: Python<'_>,
    process: Process,
    work: impl FnOnce() -> Result<T> + Send,
) -> PyResult<T> {
    process.check().map_err(|error| to_python(py, &error))?;
    to_result(py, with_messages_after(|| py.detach(|| catch(work))))
}

/// Runs `work` with the GIL. It maps errors and panics as [`run`] does, but does not check the
/// process, and does not delay log messages.
///
/// It is for work on one value in memory, where releasing the GIL would cost more than the work.
pub fn run_attached<T>(py: Python<'_>, work: impl FnOnce() -> Result<T>) -> PyResult<T> {
    to_result(py, catch(work))
}

/// Runs a conversion of Python's objects; `what` names the argument if the conversion panics.
///
/// arrow-rs does not check all of the data that it imports, and may panic.
pub fn import<T>(py: Python<'_>, what: &str, work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch(work)
        .unwrap_or_else(|panic| Err(holdfast_error(py, "Holdfast", format!("{what}: {panic}"))))
}

fn to_result<T>(py: Python<'_>, result: std::result::Result<Result<T>, String>) -> PyResult<T> {
    match result {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(to_python(py, &error)),
        Err(panic) => Err(holdfast_error(py, "Holdfast", panic)),
    }
}

/// Drops a Python object's contents without the GIL: the drop may wait for a thread or the disk.
pub fn drop_without_gil(work: impl FnOnce() + Send) {
    // Python drops the object, so the thread is attached already; this only returns its token.
    Python::try_attach(|py| {
        with_messages_after(|| {
            if let Err(panic) = catch(|| py.detach(work)) {
                log::error!("{panic}");
            }
        });
    });
}

/// Runs `work`, and returns a panic as a message for the user. A panic must not unwind into an
/// interpreter.
pub fn catch<T>(work: impl FnOnce() -> T) -> std::result::Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        format!(
            "this is a bug in Holdfast, please report it; close the database and open it again: {}",
            panic_message(&*panic)
        )
    })
}
