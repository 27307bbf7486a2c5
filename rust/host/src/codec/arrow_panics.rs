//! Arrow's panics as errors.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_schema::ArrowError;
use holdfast_core::panic_message;

/// Runs Arrow code that may panic on damaged bytes, and returns the panic as an error.
///
/// Arrow's readers of rows and of IPC trust that Arrow wrote their input. Bytes from a disk or a
/// peer may be damaged.
///
/// # Errors
/// Those of `work`; `ParseError` with the panic's message.
pub fn catch_panic<T>(work: impl FnOnce() -> Result<T, ArrowError>) -> Result<T, ArrowError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        Err(ArrowError::ParseError(format!(
            "the bytes are damaged: {}",
            panic_message(&*panic)
        )))
    })
}
