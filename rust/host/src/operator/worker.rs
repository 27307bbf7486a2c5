//! The worker at the other end of a session.

use arrow_array::RecordBatch;
use holdfast_core::{Error, ErrorKind, Result};

use crate::net::call::CallMessage;

/// The worker of a session, after the end of the session's input.
pub trait Worker {
    /// Sends a batch of output.
    ///
    /// # Errors
    /// `InvalidState` if the worker is unreachable, `Serialization` for a batch that is larger than
    /// a frame.
    fn emit(&mut self, batch: RecordBatch) -> Result<()>;

    /// Reads the next call that the worker's code makes. The session must answer each call.
    ///
    /// # Errors
    /// `InvalidState` if the worker is unreachable or sends anything but a call, `Serialization`
    /// for a call that cannot be read.
    fn call(&mut self) -> Result<CallMessage>;

    /// Answers the call.
    ///
    /// # Errors
    /// As [`Worker::emit`].
    fn answer(&mut self, answer: &CallMessage) -> Result<()>;

    /// Answers the call with an error; the session continues.
    ///
    /// # Errors
    /// `InvalidState` if the worker is unreachable.
    fn refuse(&mut self, error: &Error) -> Result<()>;

    /// Checks that the worker still waits for its acknowledgement.
    ///
    /// # Errors
    /// `InvalidState` if it does not. The session must then leave no changes.
    fn check_alive(&mut self) -> Result<()>;
}

/// A worker in this process. It makes no calls, and outlives its session.
impl<F: FnMut(RecordBatch) -> Result<()>> Worker for F {
    fn emit(&mut self, batch: RecordBatch) -> Result<()> {
        self(batch)
    }

    fn call(&mut self) -> Result<CallMessage> {
        Err(Error::new(
            ErrorKind::UnsupportedOperation,
            "this worker runs no user code",
        ))
    }

    fn answer(&mut self, _: &CallMessage) -> Result<()> {
        self.call().map(|_| ())
    }

    fn refuse(&mut self, _: &Error) -> Result<()> {
        self.call().map(|_| ())
    }

    fn check_alive(&mut self) -> Result<()> {
        Ok(())
    }
}
