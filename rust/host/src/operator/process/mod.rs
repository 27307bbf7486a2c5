//! The process operator: the user's own code, which runs in Spark's Python worker and keeps its state here.
//!
//! The host puts the rows in order, hands them out in batches of a fixed number of rows, and answers what the code asks of
//! its stores until it says that it is done. `spec.rs` settings · `calls/` what can be asked, a file a
//! kind of store · `output.rs` the digest of what the code gave.

mod calls;
mod output;
mod spec;

pub use output::OutputDigest;
pub use spec::{Kind, Spec, Store};

use std::slice::Chunks;

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use holdfast_core::{Error, ErrorKind, Result, Task, Transaction};

use super::output::Right;
use super::rows::{self, Place, Rows};
use super::{BATCH_ROWS, Counts, Operator, Outcome, Output, Worker};
use crate::message::Message;
use crate::protocol::{Digest, Epoch};
use crate::root::{OperatorMeta, Payload};
use calls::Stores;

/// One session of a process operator.
pub struct Process {
    spec: Spec,
    rows: Rows,
    /// The columns of the processor's batches.
    columns: Output,
    counts: Counts,
    heartbeat: Option<i64>,
    /// The transaction has what an earlier session came to.
    is_repeated: bool,
}

impl Process {
    /// An operator over input of these columns.
    ///
    /// # Errors
    /// `InvalidValue` or `InvalidType` names the column that does not fit.
    pub fn new(spec: &Spec, schema: &Schema) -> Result<Self> {
        let layout = rows::Layout::new("process", &spec.rows, schema)?;
        let columns = Output::new("process", &spec.columns, &layout)?;
        Ok(Self { spec: spec.clone(), rows: Rows::new(layout), columns, counts: Counts::default(), heartbeat: None, is_repeated: false })
    }

    /// The next rows in order, and the greatest time of all rows so far; no rows at the end, and the heartbeat's time.
    fn next_rows(&self, places: &mut Chunks<'_, Place>) -> Result<Message> {
        let (message, time) = match places.next() {
            None => (Message::of(RecordBatch::new_empty(self.columns.schema())), self.heartbeat),
            Some(places) => {
                let message = Message::of(self.columns.of_places(&self.rows, places, &Right::none())?);
                // Rows are in the order of their times: the last one's is the greatest.
                (message, places.last().and_then(|place| self.rows.inputs[place.input()].time(place.row())))
            }
        };
        Ok(match time {
            Some(time) => message.with("time", time),
            None => message,
        })
    }
}

impl Operator for Process {
    fn meta(&self, first_epoch: Epoch) -> OperatorMeta {
        OperatorMeta {
            kind: "process".to_owned(),
            key: self.rows.layout.columns(self.rows.layout.keys.clone()),
            value: Vec::new(),
            payload: Payload::default(),
            settings: self.spec.settings(),
            first_epoch,
        }
    }

    fn rows(&mut self) -> &mut Rows {
        &mut self.rows
    }

    fn push(&mut self, batch: RecordBatch, partition: Option<i32>) -> Result<()> {
        self.rows.push(batch, partition, &mut self.counts)
    }

    fn repeats(&self) -> Option<Digest> {
        (!self.spec.deterministic).then(|| self.rows.digest())
    }

    fn set_repeated(&mut self) {
        self.is_repeated = true;
    }

    fn set_heartbeat(&mut self, time: i64) {
        self.heartbeat = Some(time);
    }

    fn run(&mut self, task: &Task, tx: &mut Transaction, worker: &mut dyn Worker) -> Result<Outcome> {
        let ordered = rows::order(&self.rows.inputs, &mut self.counts);
        let mut batches = ordered.chunks(BATCH_ROWS);
        let mut stores = Stores::new(task);
        loop {
            let call = worker.call()?;
            let answer = match call.word("method") {
                Some("rows") => self.next_rows(&mut batches)?,
                Some("repeated") => Message::empty().with("repeated", self.is_repeated),
                Some("done") => {
                    self.counts.output_rows = call.parsed("rows")?;
                    let output = Digest::try_from(call.parsed::<String>("digest")?)
                        .map_err(|error| Error::new(ErrorKind::InvalidState, format!("the last call: {error}")))?;
                    return Ok(Outcome { input: self.rows.digest(), output, counts: self.counts });
                }
                _ => stores.call(tx, &call)?,
            };
            worker.answer(&answer)?;
        }
    }
}
