//! Operators: what a session does with its rows. Each keeps its own stores under its own name.

pub mod asof_join;
pub mod rows;

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use holdfast_core::{Result, StoreSpec, Task, Transaction};
use serde::{Deserialize, Serialize};

use crate::protocol::{Digest, Epoch, OperatorName};
use crate::root::OperatorMeta;

/// An operator of a request, by kind.
#[derive(Debug, Clone, Deserialize)]
pub struct OperatorSpec {
    /// Its name in the state.
    pub name: OperatorName,
    /// Which operator it is, with its settings.
    #[serde(flatten)]
    pub kind: OperatorKind,
}

/// The operators.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum OperatorKind {
    /// The as-of join of a stream with a versioned table.
    JoinAsof(asof_join::Spec),
}

impl OperatorKind {
    /// The operator, ready for rows of these columns.
    ///
    /// # Errors
    /// `InvalidValue` or `InvalidType` names the column that does not fit.
    pub fn start(&self, schema: &Schema) -> Result<Box<dyn Operator>> {
        match self {
            Self::JoinAsof(spec) => Ok(Box::new(asof_join::AsofJoin::new(spec, schema)?)),
        }
    }

    /// The stores that the operator keeps.
    pub fn stores(&self) -> Vec<StoreSpec> {
        match self {
            Self::JoinAsof(spec) => spec.stores(),
        }
    }
}

/// One session's work: takes rows in, then runs over a transaction. It keeps nothing beyond the session.
pub trait Operator: Send {
    /// What the root remembers of the operator.
    fn meta(&self, first_epoch: Epoch) -> OperatorMeta;

    /// Takes a batch of input. `partition`: the only one that its rows may be of, if that matters.
    ///
    /// # Errors
    /// `InvalidState` names the rows of another partition.
    fn push(&mut self, batch: RecordBatch, partition: Option<i32>) -> Result<()>;

    /// Puts the input in order, applies it to the transaction and hands the output to `emit`, in order.
    ///
    /// # Errors
    /// What the store or `emit` says.
    fn run(&mut self, task: &Task, tx: &mut Transaction, emit: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<Outcome>;
}

/// What a run over the input came to.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The input's digest, whatever its order.
    pub input: Digest,
    /// The output's digest, in its order.
    pub output: Digest,
    /// What was counted.
    pub counts: Counts,
}

/// Rows by what became of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Rows that came in.
    pub input_rows: u64,
    /// Rows that went out.
    pub output_rows: u64,
    /// Left rows that found a match.
    pub matched: u64,
    /// Right rows without a key or a time, which nothing could ever match.
    pub dropped: u64,
    /// Right rows older than the history retention, which the store refused.
    pub late: u64,
}
