//! Arrow's panics as errors.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_schema::ArrowError;

/// Does what Arrow may panic at: its readers of rows and of IPC trust that Arrow has written what they read, and what comes from a
/// disk or a peer may be damaged.
///
/// # Errors
/// Those of `work`, and one for a panic, whose own words are in the log.
pub fn caught<T>(work: impl FnOnce() -> Result<T, ArrowError>) -> Result<T, ArrowError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(ArrowError::ParseError("the bytes are damaged".to_owned())))
}
