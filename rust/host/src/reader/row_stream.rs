//! The rows of a scan, read ahead by a thread.

mod batch_queue;
mod scan_threads;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use holdfast_core::{Error, ErrorKind, Result, panic_message};

use self::batch_queue::{BatchQueue, closed};
pub use self::scan_threads::end_scans;
use super::read_from::AnswerState;
use crate::tables::EmitRows;

/// How many batches are read ahead.
const AHEAD: usize = 2;

/// The batches of a scan. The scan ends when this is dropped.
pub struct RowStream {
    schema: SchemaRef,
    state: AnswerState,
    queue: Arc<BatchQueue>,
}

impl RowStream {
    /// Starts a thread that runs `read`, which passes its batches to the stream. The queue is
    /// closed once nothing takes them, so a long `read` checks it between two batches.
    ///
    /// # Errors
    /// `Io` if the thread cannot be started, `StoreClosed` after [`end_scans`].
    pub fn start(
        schema: SchemaRef,
        state: AnswerState,
        read: impl FnOnce(&BatchQueue, &mut EmitRows<'_>) -> Result<()> + Send + 'static,
    ) -> Result<Self> {
        let (send, queue) = BatchQueue::bounded(AHEAD);
        let (columns, of_thread) = (Arc::clone(&schema), Arc::clone(&queue));
        let work = move || {
            let mut emit = |batch| {
                of_thread.check_open()?;
                let batch = with_schema(&batch, &columns)?;
                send.send(Ok(batch)).map_err(|_| closed())
            };
            // Without an error, the rows before a panic would look like all rows.
            let result = catch_unwind(AssertUnwindSafe(|| read(&of_thread, &mut emit)));
            let result = result.unwrap_or_else(|panic| {
                let text = format!(
                    "a bug in Holdfast ended the read ({}): report it",
                    panic_message(&*panic)
                );
                Err(Error::new(ErrorKind::InvalidState, text))
            });
            if let Err(error) = result
                && send.send(Err(error)).is_err()
            {
                log::debug!("a scan was closed before its end");
            }
        };
        scan_threads::start(Arc::clone(&queue), work)?;
        Ok(Self {
            schema,
            state,
            queue,
        })
    }

    /// The columns of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Which state the rows are of.
    pub fn state(&self) -> AnswerState {
        self.state
    }
}

/// Returns a batch with this schema. The message of a host has the types of the columns as the host
/// knows them, and the consumer of the stream does not look at them.
fn with_schema(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = batch.columns().to_vec();
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &rows).map_err(|error| {
        let text = format!(
            "the rows have other columns than the table had when the scan began ({error}): scan \
             again"
        );
        Error::new(ErrorKind::Serialization, text)
    })
}

impl Iterator for RowStream {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.queue.take_next()
    }
}

impl Drop for RowStream {
    fn drop(&mut self) {
        self.queue.close();
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, Int64Array};
    use arrow_schema::{DataType, Field, Schema};

    use super::*;
    use crate::protocol::Epoch;

    #[test]
    #[expect(clippy::panic, reason = "tests a panic")]
    fn stream_that_a_panic_ends_has_an_error() {
        let schema = Arc::new(Schema::empty());
        let rows = RecordBatch::new_empty(Arc::clone(&schema));
        let read = move |_: &BatchQueue, emit: &mut EmitRows<'_>| {
            emit(rows)?;
            panic!("a bug");
        };
        let state = AnswerState::of_final(Epoch(0));
        let found: Vec<_> = RowStream::start(schema, state, read)
            .expect("starts")
            .collect();
        assert_eq!(found.len(), 2);
        assert!(found[0].is_ok());
        let error = found[1].as_ref().expect_err("the panic");
        assert!(error.to_string().contains("a bug in Holdfast"), "{error}");
    }

    #[test]
    fn dropped_stream_ends_a_read_that_sends_nothing() {
        let (done, is_done) = std::sync::mpsc::channel();
        let schema = Arc::new(Schema::empty());
        let read = move |queue: &BatchQueue, _: &mut EmitRows<'_>| {
            while queue.check_open().is_ok() {
                std::thread::yield_now();
            }
            done.send(()).map_err(|_| closed())
        };
        let state = AnswerState::of_final(Epoch(0));
        drop(RowStream::start(schema, state, read).expect("starts"));
        is_done.recv().expect("the read ends");
    }

    #[test]
    fn rows_with_other_columns_than_the_streams_are_an_error() {
        let rows = |name| {
            let column: ArrayRef = Arc::new(Int64Array::from(vec![7]));
            let inner = Field::new(name, DataType::Int64, true);
            let inner = arrow_array::StructArray::from(vec![(Arc::new(inner), column)]);
            RecordBatch::try_from_iter([("value", Arc::new(inner) as ArrayRef)]).expect("a batch")
        };
        let (schema, other) = (rows("b").schema(), rows("a"));
        let state = AnswerState::of_final(Epoch(0));
        let mut stream =
            RowStream::start(schema, state, move |_, emit| emit(other)).expect("starts");
        let error = stream.next().expect("an item").expect_err("other columns");
        assert_eq!(error.kind(), ErrorKind::Serialization, "{error}");
        assert!(stream.next().is_none());
    }
}
