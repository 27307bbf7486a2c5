//! One session's work.

use arrow_array::RecordBatch;
use holdfast_core::{Database, Result, Transaction};

use super::input::{InputRows, Intake};
use super::outcome::Outcome;
use super::worker::Worker;
use crate::protocol::Counts;
use crate::protocol::{Digest, Epoch};
use crate::root::OperatorMeta;

/// An operator in one session: it takes rows in, then runs over a transaction. It has no state
/// beyond the session except in its stores.
pub trait Operator: Send {
    /// What the root records of the operator.
    fn meta(&self, first_epoch: Epoch) -> OperatorMeta;

    /// The operator's input rows, and its counts of them.
    fn input(&mut self) -> (&mut InputRows, &mut Counts);

    /// The operator's input rows.
    fn rows(&mut self) -> &mut InputRows {
        self.input().0
    }

    /// Takes a batch of input.
    ///
    /// # Errors
    /// As [`InputRows::push`].
    fn push(&mut self, batch: RecordBatch, intake: &Intake) -> Result<()> {
        let (rows, counts) = self.input();
        rows.push(batch, intake, counts)
    }

    /// The input's digest, if the results of an earlier session with the same input must be
    /// returned instead of computed again.
    fn repeats(&self) -> Option<Digest> {
        None
    }

    /// Declares that the transaction has the changes of an earlier session with the same input.
    fn set_repeated(&mut self) {}

    /// Sorts the input, applies it to the transaction and sends the output to the worker, in order.
    ///
    /// # Errors
    /// Those of [`InputRows::next_part`], of the stores and of the worker; `InvalidValue` or
    /// `Serialization` for a result that cannot be computed or sent.
    fn run(
        &mut self,
        db: &Database,
        tx: &mut Transaction,
        worker: &mut dyn Worker,
    ) -> Result<Outcome>;
}
