//! Arrow's panics as errors.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_schema::ArrowError;

/// Does what Arrow may panic at: its readers of rows and of IPC trust that Arrow has written what
/// they read, and what comes from a disk or a peer may be damaged.
///
/// # Errors
/// Those of `work`, and one for a panic, with its words.
pub fn caught<T>(work: impl FnOnce() -> Result<T, ArrowError>) -> Result<T, ArrowError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        Err(ArrowError::ParseError(format!(
            "the bytes are damaged: {}",
            words(&*panic)
        )))
    })
}

/// What a panic said.
pub fn words(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(words), _) => words,
        (None, Some(words)) => words,
        (None, None) => "a panic without words",
    }
}
