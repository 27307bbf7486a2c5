//! The process operator: the user's own code, which runs in Spark's Python worker and keeps its
//! state here.
//!
//! The host puts the rows in order, hands them out in batches of a fixed size, and answers what the
//! code asks of its stores until it says that it is done. `spec.rs` settings · `calls/` what can be
//! asked, a file a kind of store · `output.rs` the digest of what the code gave.

mod calls;
mod output;
mod spec;

pub use output::OutputDigest;
pub use spec::{Kind, Spec, Store};

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use holdfast_core::{Database, Error, ErrorKind, Result, Transaction};

use super::batch::Filling;
use super::output::Right;
use super::rows::{self, Order, Place, Rows, Sides};
use super::{Counts, Operator, Outcome, Output, Worker};
use crate::net::call::CallMessage;
use crate::protocol::{Digest, Epoch};
use crate::root::OperatorMeta;
use calls::Stores;

/// One session of a process operator.
pub struct Process {
    spec: Spec,
    rows: Rows,
    /// The columns of the processor's batches.
    columns: Output,
    counts: Counts,
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
        Ok(Self {
            spec: spec.clone(),
            rows: Rows::new(layout),
            columns,
            counts: Counts::default(),
            is_repeated: false,
        })
    }

    /// The next rows in order, and the greatest time of all rows so far; no rows at the end, and
    /// the heartbeat's time. `part`: places of the current part that are still to come, last first.
    fn next_rows(&mut self, part: &mut Vec<Place>) -> Result<CallMessage> {
        while part.is_empty() {
            let Some(mut next) = self.rows.next_part(Order::Matchable, &mut self.counts)? else {
                let end = CallMessage::of(RecordBatch::new_empty(self.columns.schema()));
                return Ok(match self.rows.heartbeat {
                    Some(time) => end.with("time", time),
                    None => end,
                });
            };
            next.reverse();
            *part = next;
        }
        let mut filling = Filling::default();
        let count = part
            .iter()
            .rev()
            .take_while(|place| filling.takes(self.rows.row_bytes(**place)))
            .count();
        let mut places = part.split_off(part.len() - count);
        places.reverse();
        let message = CallMessage::of(self.columns.of_places(
            &self.rows,
            &places,
            &Right::none(),
        )?);
        // Rows are in the order of their times: the last one's is the greatest.
        let time = places
            .last()
            .and_then(|place| self.rows.inputs[place.input()].time(place.row()));
        Ok(match time {
            Some(time) => message.with("time", time),
            None => message,
        })
    }
}

impl Operator for Process {
    fn meta(&self, first_epoch: Epoch) -> OperatorMeta {
        let mut meta = self.rows.layout.meta(
            "process",
            Sides::default(),
            self.spec.settings(),
            first_epoch,
        );
        meta.payload.serdes = self.spec.serdes();
        meta
    }

    fn input(&mut self) -> (&mut Rows, &mut Counts) {
        (&mut self.rows, &mut self.counts)
    }

    fn repeats(&self) -> Option<Digest> {
        (!self.spec.deterministic).then(|| self.rows.digest())
    }

    fn set_repeated(&mut self) {
        self.is_repeated = true;
    }

    fn run(
        &mut self,
        db: &Database,
        tx: &mut Transaction,
        worker: &mut dyn Worker,
    ) -> Result<Outcome> {
        let mut part = Vec::new();
        let mut stores = Stores::new(db);
        loop {
            let call = worker.call()?;
            let answer = match call.attribute("method") {
                Some("rows") => self.next_rows(&mut part)?,
                Some("repeated") => CallMessage::empty().with("repeated", self.is_repeated),
                Some("done") => {
                    self.counts.output_rows = call.parsed("rows")?;
                    let output =
                        Digest::try_from(call.parsed::<String>("digest")?).map_err(|error| {
                            Error::new(ErrorKind::InvalidState, format!("the last call: {error}"))
                        })?;
                    return Ok(Outcome {
                        input: self.rows.digest(),
                        output,
                        counts: self.counts,
                    });
                }
                _ => match stores.call(tx, &call) {
                    Err(error) if is_refused(&call, &error) => {
                        worker.refuse(&error)?;
                        continue;
                    }
                    answer => answer?,
                },
            };
            worker
                .answer(&answer)
                .map_err(|error| match call.attribute("store") {
                    Some(store) => error.store(store),
                    None => error,
                })?;
        }
    }
}

/// Whether an error is of a read's arguments, so that the code may catch it. A write that fails
/// ends the session: it may be done in part, and one that waited for the end of its batch fails in
/// another call than its own.
fn is_refused(call: &CallMessage, error: &Error) -> bool {
    let is_argument = matches!(
        error.kind(),
        ErrorKind::InvalidValue | ErrorKind::InvalidType | ErrorKind::UnsupportedOperation
    );
    is_argument
        && !matches!(
            call.attribute("method"),
            Some("put" | "delete" | "delete_range" | "apply")
        )
}
