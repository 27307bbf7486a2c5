//! Arrow's panics as errors.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_schema::ArrowError;
use holdfast_core::panic_message;

/// Does what Arrow may panic at: its readers of rows and of IPC trust that Arrow has written what
/// they read, and what comes from a disk or a peer may be damaged.
///
/// # Errors
/// Those of `work`, and one for a panic, with its words.
pub fn caught<T>(work: impl FnOnce() -> Result<T, ArrowError>) -> Result<T, ArrowError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        Err(ArrowError::ParseError(format!(
            "the bytes are damaged: {}",
            panic_message(&*panic)
        )))
    })
}
