//! Operators: what a session does with its rows. Each keeps its own stores under its own name.

pub mod aggregate;
pub mod asof_join;
mod batch;
pub mod drop_duplicates;
pub mod join_foreign_key;
pub mod join_table;
pub mod join_window;
pub mod materialize;
mod output;
mod pairs;
pub mod process;
pub mod rows;
mod shelf;

pub use output::{OutputColumn, Source};

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use holdfast_core::{Database, Error, ErrorKind, Result, StoreKind, StoreSpec, Transaction};
use serde::{Deserialize, Serialize};

use crate::net::call::CallMessage;
use crate::protocol::{Digest, Epoch, OperatorName};
use crate::root::OperatorMeta;
use output::Output;
use rows::{Intake, Rows, RowsSpec};

/// An operator of a request, by kind.
#[derive(Debug, Clone, Deserialize)]
pub struct OperatorSpec {
    /// Its name in the state.
    pub name: OperatorName,
    /// How far past its micro-batch's timestamp a row may be dated: microseconds; none: any.
    #[serde(default)]
    pub max_ahead: Option<i64>,
    /// Its stores are in files; else in memory, and made anew from the log where a host begins.
    #[serde(default = "yes")]
    pub persistent: bool,
    /// Which operator it is, with its settings.
    #[serde(flatten)]
    pub kind: OperatorKind,
}

fn yes() -> bool {
    true
}

impl OperatorSpec {
    /// The stores that the operator keeps.
    pub fn stores(&self) -> Vec<StoreSpec> {
        let stores = self.kind.stores().into_iter();
        stores
            .map(|store| StoreSpec {
                persistent: store.persistent && self.persistent,
                ..store
            })
            .collect()
    }

    /// What the root remembers of the operator.
    pub fn meta(&self, operator: &dyn Operator, first_epoch: Epoch) -> OperatorMeta {
        let mut meta = operator.meta(first_epoch);
        if !self.persistent {
            meta.settings
                .insert("persistent".to_owned(), self.persistent.into());
        }
        meta
    }
}

/// The operators.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum OperatorKind {
    /// The as-of join of a stream with a versioned table.
    JoinAsof(asof_join::Spec),
    /// The join of two tables.
    JoinTable(join_table::Spec),
    /// The first stage of a join of two tables by a foreign key.
    ForeignLeft(join_foreign_key::LeftSpec),
    /// Its second stage.
    ForeignJoin(join_foreign_key::JoinSpec),
    /// The join of two streams within a window.
    JoinWindow(join_window::Spec),
    /// Rows of which no like came before.
    DropDuplicates(drop_duplicates::Spec),
    /// A change stream kept as a table.
    Materialize(materialize::Spec),
    /// An aggregation by key and window.
    Aggregate(aggregate::Spec),
    /// The user's own code.
    Process(process::Spec),
}

impl OperatorKind {
    /// The operator, ready for rows of these columns.
    ///
    /// # Errors
    /// `InvalidValue` or `InvalidType` names the column that does not fit.
    pub fn start(&self, schema: &Schema) -> Result<Box<dyn Operator>> {
        match self {
            Self::JoinAsof(spec) => Ok(Box::new(asof_join::AsofJoin::new(spec, schema)?)),
            Self::ForeignLeft(spec) => {
                Ok(Box::new(join_foreign_key::ForeignLeft::new(spec, schema)?))
            }
            Self::ForeignJoin(spec) => {
                Ok(Box::new(join_foreign_key::ForeignJoin::new(spec, schema)?))
            }
            Self::JoinTable(spec) => Ok(Box::new(join_table::JoinTable::new(spec, schema)?)),
            Self::JoinWindow(spec) => Ok(Box::new(join_window::JoinWindow::new(spec, schema)?)),
            Self::DropDuplicates(spec) => Ok(Box::new(drop_duplicates::DropDuplicates::new(
                spec, schema,
            )?)),
            Self::Materialize(spec) => Ok(Box::new(materialize::Materialize::new(spec, schema)?)),
            Self::Aggregate(spec) => Ok(Box::new(aggregate::Aggregation::new(spec, schema)?)),
            Self::Process(spec) => Ok(Box::new(process::Process::new(spec, schema)?)),
        }
    }

    /// The input's columns.
    pub fn rows(&self) -> &RowsSpec {
        match self {
            Self::JoinAsof(spec) => &spec.rows,
            Self::ForeignLeft(spec) => &spec.rows,
            Self::ForeignJoin(spec) => &spec.rows,
            Self::JoinTable(spec) => &spec.rows,
            Self::JoinWindow(spec) => &spec.rows,
            Self::DropDuplicates(spec) => &spec.rows,
            Self::Materialize(spec) => &spec.rows,
            Self::Aggregate(spec) => &spec.rows,
            Self::Process(spec) => &spec.rows,
        }
    }

    /// The stores that the operator keeps.
    pub fn stores(&self) -> Vec<StoreSpec> {
        match self {
            Self::JoinAsof(spec) => spec.stores(),
            Self::ForeignLeft(spec) => spec.stores(),
            Self::ForeignJoin(spec) => spec.stores(),
            Self::JoinTable(spec) => spec.stores(),
            Self::JoinWindow(spec) => spec.stores(),
            Self::DropDuplicates(spec) => spec.stores(),
            Self::Materialize(spec) => spec.stores(),
            Self::Aggregate(spec) => spec.stores(),
            Self::Process(spec) => spec.stores(),
        }
    }
}

/// One session's work: takes rows in, then runs over a transaction. It keeps nothing beyond the
/// session.
pub trait Operator: Send {
    /// What the root remembers of the operator.
    fn meta(&self, first_epoch: Epoch) -> OperatorMeta;

    /// The rows that it takes, and what it counts of them.
    fn input(&mut self) -> (&mut Rows, &mut Counts);

    /// The rows that it takes.
    fn rows(&mut self) -> &mut Rows {
        self.input().0
    }

    /// Takes a batch of input.
    ///
    /// # Errors
    /// `InvalidState` names the rows of another partition; `Io` for a disk that is full when rows
    /// outgrow their memory.
    fn push(&mut self, batch: RecordBatch, intake: &Intake) -> Result<()> {
        let (rows, counts) = self.input();
        rows.push(batch, intake, counts)
    }

    /// The input's digest, if an earlier session's results are to be given again rather than worked
    /// out anew.
    fn repeats(&self) -> Option<Digest> {
        None
    }

    /// The transaction has the changes of an earlier session with the same input.
    fn set_repeated(&mut self) {}

    /// Puts the input in order, applies it to the transaction and hands the output to the worker,
    /// in order.
    ///
    /// # Errors
    /// What the store or the worker says.
    fn run(
        &mut self,
        db: &Database,
        tx: &mut Transaction,
        worker: &mut dyn Worker,
    ) -> Result<Outcome>;
}

/// The worker at the other end of a session, once its input has ended.
pub trait Worker {
    /// Takes a batch of output.
    ///
    /// # Errors
    /// `InvalidState` if the worker is gone.
    fn emit(&mut self, batch: RecordBatch) -> Result<()>;

    /// What its own code asks next; each call wants an answer.
    ///
    /// # Errors
    /// `InvalidState` if the worker is gone or says something else, `Serialization` for what cannot
    /// be read.
    fn call(&mut self) -> Result<CallMessage>;

    /// Answers the call.
    ///
    /// # Errors
    /// `InvalidState` if the worker is gone.
    fn answer(&mut self, answer: &CallMessage) -> Result<()>;

    /// Answers the call with what is wrong with it; the session goes on.
    ///
    /// # Errors
    /// `InvalidState` if the worker is gone.
    fn refuse(&mut self, error: &Error) -> Result<()>;

    /// Whether it still waits for its acknowledgement.
    ///
    /// # Errors
    /// `InvalidState` if it is gone: its session must leave nothing.
    fn check_alive(&mut self) -> Result<()>;
}

/// A worker in this process that has no code of its own, and ends after its session.
impl<F: FnMut(RecordBatch) -> Result<()>> Worker for F {
    fn emit(&mut self, batch: RecordBatch) -> Result<()> {
        self(batch)
    }

    fn call(&mut self) -> Result<CallMessage> {
        Err(Error::new(
            ErrorKind::UnsupportedOperation,
            "this worker has no code of its own",
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
    /// Rows of the result with both sides.
    pub matched: u64,
    /// Rows without a key or a time, where nothing can be done with them.
    pub dropped: u64,
    /// Rows that came too late: older than what is kept, or behind their grace.
    pub late: u64,
    /// Rows that were dated too far ahead, and were set aside.
    pub ahead: u64,
}

/// A store of one value each time of a key.
fn by_time(retention: i64, window_size: i64) -> StoreKind {
    StoreKind::Window {
        retention,
        window_size,
        retain_duplicates: false,
        timestamped: false,
    }
}
