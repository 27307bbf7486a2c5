//! One session of a process operator.
//!
//! The host sorts the rows, sends them in batches of limited size, and answers the calls that the
//! code makes to its stores until the code ends.

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use holdfast_core::{Database, Error, ErrorKind, Result, StoreSpec, Transaction};

use super::calls::ProcessStores;
use super::spec::ProcessSpec;
use super::timers;
use crate::net::call::CallMessage;
use crate::operator::batch_size::BatchSize;
use crate::operator::execution::Operator;
use crate::operator::input::{InputLayout, InputRows, RowOrder, RowPlace, RowsSpec, StoredSides};
use crate::operator::outcome::Outcome;
use crate::operator::output::{MatchedRight, OutputColumns};
use crate::operator::spec::OperatorSpec;
use crate::operator::worker::Worker;
use crate::protocol::Counts;
use crate::protocol::{Digest, Epoch};
use crate::root::OperatorMeta;

/// One session of a process operator.
pub struct Process {
    spec: ProcessSpec,
    rows: InputRows,
    /// The columns of the batches that the processor receives.
    columns: OutputColumns,
    counts: Counts,
    /// Whether the transaction has the changes of an earlier session with the same input.
    is_repeated: bool,
}

impl OperatorSpec for ProcessSpec {
    fn start(&self, schema: &Schema) -> Result<Box<dyn Operator>> {
        let layout = InputLayout::new("process", &self.rows, schema)?;
        let columns = OutputColumns::new("process", &self.columns, &layout)?;
        Ok(Box::new(Process {
            spec: self.clone(),
            rows: InputRows::new(layout),
            columns,
            counts: Counts::default(),
            is_repeated: false,
        }))
    }

    fn rows(&self) -> &RowsSpec {
        &self.rows
    }

    fn stores(&self) -> Vec<StoreSpec> {
        self.stores
            .iter()
            .map(|store| StoreSpec::new(&store.name, store.kind.into()))
            .collect()
    }
}

impl Process {
    /// Returns the next rows in order, with the greatest time of all rows so far. At the end, the
    /// message has no rows, and the time is the heartbeat's. `part` has the remaining places of the
    /// current part, the last one first.
    fn next_rows(&mut self, part: &mut Vec<RowPlace>) -> Result<CallMessage> {
        while part.is_empty() {
            let Some(mut next) = self.rows.next_part(RowOrder::Matchable, &mut self.counts)? else {
                let end = CallMessage::of(RecordBatch::new_empty(self.columns.schema()));
                return Ok(match self.rows.heartbeat {
                    Some(time) => end.with("time", time),
                    None => end,
                });
            };
            next.reverse();
            *part = next;
        }
        let mut size = BatchSize::default();
        let count = part
            .iter()
            .rev()
            .take_while(|place| size.try_add(self.rows.row_bytes(**place)))
            .count();
        let mut places = part.split_off(part.len() - count);
        places.reverse();
        let columns = &self.columns;
        let message =
            CallMessage::of(columns.batch_of_rows(&self.rows, &places, &MatchedRight::none())?);
        // Rows are in the order of their times: the last row has the greatest time.
        let time = places.last().and_then(|place| self.rows.time(*place));
        Ok(match time {
            Some(time) => message.with("time", time),
            None => message,
        })
    }
}

impl Operator for Process {
    fn meta(&self, first_epoch: Epoch) -> OperatorMeta {
        let (layout, settings) = (&self.rows.layout, self.spec.settings());
        let mut meta = layout.meta("process", StoredSides::NONE, settings, first_epoch);
        meta.payload.serdes = self.spec.serdes();
        meta
    }

    fn input(&mut self) -> (&mut InputRows, &mut Counts) {
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
        let mut stores = ProcessStores::new(db);
        loop {
            let call = worker.call()?;
            let answer = match call.attribute("method") {
                Some("rows") => self.next_rows(&mut part)?,
                Some("repeated") => CallMessage::empty().with("repeated", self.is_repeated),
                Some("done") => {
                    self.counts.output_rows = call.parsed("rows")?;
                    let output =
                        Digest::try_from(call.parsed::<String>("digest")?).map_err(|error| {
                            Error::new(
                                ErrorKind::InvalidState,
                                format!("the worker's last call has no valid digest: {error}"),
                            )
                        })?;
                    return Ok(Outcome {
                        input: self.rows.digest(),
                        output,
                        counts: self.counts,
                        stream_time: timers::stream_time(db, tx)?,
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

/// Whether an error is due to the arguments of a read. The code may catch such an error. A write
/// that fails ends the session: it may be partly done, and the worker sends buffered writes later
/// than the code makes them.
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
