//! The conversation with a worker in which the user's functions run.
//!
//! Once the worker's input has ended, the host gives it tasks. The worker's first call has the
//! state types of the functions: a column for each function, whose type is the struct of its state.
//! Each later call has the result of the last task. The host answers each call with the next task:
//!
//! ```text
//! task     batch                               result
//! states   states, for the next task           nothing
//! update   the number of a state, then a row   the states with those rows
//! merge    for each state, another one         the states, each merged with the other one
//! result   states                              a column
//! emit     rows of the result                  nothing: they are passed to Spark
//! end      nothing                             the digest of the result
//! ```

use arrow_array::RecordBatch;
use holdfast_core::{Error, ErrorKind, Result};

use crate::net::call::CallMessage;
use crate::operator::worker::Worker;
use crate::protocol::Digest;

/// Reads the state types of the user's functions: a column for each, by its name in the result.
///
/// # Errors
/// Those of the worker.
pub fn begin(worker: &mut dyn Worker) -> Result<RecordBatch> {
    worker.call().map(|call| call.batch)
}

/// Sends rows of the result.
///
/// # Errors
/// Those of the worker.
pub fn emit(worker: &mut dyn Worker, batch: RecordBatch) -> Result<()> {
    ask(worker, "emit", None, batch).map(|_| ())
}

/// Ends the work; returns the digest of the result, which the worker computes.
///
/// # Errors
/// The worker's; `InvalidState` for an answer without a digest.
pub fn end(worker: &mut dyn Worker) -> Result<Digest> {
    worker.answer(&CallMessage::empty().with("task", "end"))?;
    let digest: String = worker.call()?.parsed("digest")?;
    Digest::try_from(digest).map_err(|error| {
        Error::new(
            ErrorKind::InvalidState,
            format!("the worker's last call has no valid digest: {error}"),
        )
    })
}

/// Gives the worker a task and returns the task's result. `aggregate` is the number of the function
/// that the task is for.
///
/// # Errors
/// Those of the worker.
pub fn ask(
    worker: &mut dyn Worker,
    task: &str,
    aggregate: Option<usize>,
    batch: RecordBatch,
) -> Result<RecordBatch> {
    let message = CallMessage::of(batch).with("task", task);
    worker.answer(&match aggregate {
        Some(number) => message.with("aggregate", number),
        None => message,
    })?;
    worker.call().map(|call| call.batch)
}
