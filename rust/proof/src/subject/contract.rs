//! What a kind of store implements to take part in the proof.

use crate::step_error::{StepError, StepResult};
use fastrand::Rng;
use holdfast_core::{Database, StoreSpec, Transaction};

/// A database and a transaction of it.
pub struct OpenTransaction<'a> {
    /// The database.
    pub db: &'a Database,
    /// One of its transactions.
    pub tx: &'a mut Transaction,
}

/// A kind of store and its model.
pub trait Subject: Send {
    /// Name and kind.
    fn spec(&self) -> StoreSpec;

    /// Draws one write of transaction `n` and applies it to the model, and to the transaction if
    /// there is one. The store's answer must equal the model's. The draws do not depend on `open`.
    fn write(
        &mut self,
        rng: &mut Rng,
        n: u64,
        open: Option<&mut OpenTransaction<'_>>,
    ) -> StepResult;

    /// Draws one read and compares the answer with the model's.
    fn read(&self, rng: &mut Rng, open: &mut OpenTransaction<'_>) -> StepResult;

    /// Compares all rows of the store with the model's.
    fn check(&self, open: &mut OpenTransaction<'_>) -> StepResult;

    /// A copy of the model.
    fn copy(&self) -> Box<dyn Subject>;
}

/// Compares an answer with the model's.
pub(crate) fn same<T: PartialEq + std::fmt::Debug>(
    what: impl FnOnce() -> String,
    store: &T,
    model: &T,
) -> StepResult {
    if store == model {
        Ok(())
    } else {
        Err(StepError::wrong(what(), store, model))
    }
}
