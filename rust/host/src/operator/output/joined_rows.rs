//! Sends joined rows to the worker.

use arrow_array::RecordBatch;
use holdfast_core::Result;

use super::columns::OutputColumns;
use super::from_bytes::{JoinedRows, JoinedSide};
use super::writer::OutputWriter;
use crate::operator::batch_size::BatchSize;
use crate::operator::input::{InputLayout, InputRows};
use crate::operator::outcome::Outcome;
use crate::operator::worker::Worker;
use crate::protocol::Counts;

/// Collects joined rows into batches and sends them to the worker, in order.
pub struct JoinedRowWriter<'a> {
    columns: &'a OutputColumns,
    layout: &'a InputLayout,
    /// The batches of the input whose rows may be sides of joined rows.
    inputs: Vec<RecordBatch>,
    output: OutputWriter<'a>,
    rows: JoinedRows,
    size: BatchSize,
}

impl<'a> JoinedRowWriter<'a> {
    /// A writer of rows with these columns; `layout` describes the keys and payloads of the input.
    /// The sides of the rows have no place in the input.
    pub fn new(
        columns: &'a OutputColumns,
        layout: &'a InputLayout,
        worker: &'a mut dyn Worker,
    ) -> Self {
        Self {
            columns,
            layout,
            inputs: Vec::new(),
            output: OutputWriter::new(worker),
            rows: JoinedRows::default(),
            size: BatchSize::default(),
        }
    }

    /// A writer of rows with these columns, whose sides may be rows of the input.
    pub fn over_input(
        columns: &'a OutputColumns,
        input: &'a InputRows,
        worker: &'a mut dyn Worker,
    ) -> Self {
        Self {
            inputs: batches_of(input),
            ..Self::new(columns, &input.layout, worker)
        }
    }

    /// Sends the rows so far. The sides of further rows may be rows of the current part of `input`.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn start_part(&mut self, input: &InputRows) -> Result<()> {
        self.flush()?;
        self.inputs = batches_of(input);
        Ok(())
    }

    /// Adds a row.
    ///
    /// # Errors
    /// `Serialization` if keys or payloads were not encoded with the input's layout; otherwise the
    /// worker's error. The error may be of rows that were added earlier.
    pub fn push(&mut self, key: &[u8], left: JoinedSide<'_>, right: JoinedSide<'_>) -> Result<()> {
        let bytes = [Some(key), left.payload, right.payload]
            .into_iter()
            .flatten()
            .map(<[u8]>::len)
            .sum();
        if !self.size.try_add(bytes) {
            self.flush()?;
            self.size.try_add(bytes);
        }
        self.rows.push(key, left, right);
        Ok(())
    }

    /// Adds a row of one side without a match.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn push_alone(&mut self, key: &[u8], side: JoinedSide<'_>, is_left: bool) -> Result<()> {
        if is_left {
            self.push(key, side, JoinedSide::MISSING)
        } else {
            self.push(key, JoinedSide::MISSING, side)
        }
    }

    /// Sends the remaining rows. `counts` has all counts except that of the output rows.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn finish(mut self, input: &InputRows, counts: Counts) -> Result<Outcome> {
        self.flush()?;
        Ok(self.output.finish(input, counts))
    }

    fn flush(&mut self) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        self.rows.digest(self.output.hasher());
        let batch = self.rows.batch(self.columns, self.layout, &self.inputs)?;
        self.rows.clear();
        self.size = BatchSize::default();
        self.output.emit(batch)
    }
}

/// The batches of the current part of the input. Their columns are not copied.
fn batches_of(input: &InputRows) -> Vec<RecordBatch> {
    let batches = input.inputs.iter();
    batches.map(|input| input.batch.clone()).collect()
}
