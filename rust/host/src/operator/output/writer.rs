//! Sends the rows of a result to the worker, counts them and digests them.

use holdfast_core::Result;
use xxhash_rust::xxh3::Xxh3Default;

use super::columns::OutputColumns;
use super::digest::digest_input_rows;
use super::from_input::MatchedRight;
use crate::operator::input::{InputRows, RowPlace};
use crate::operator::outcome::Outcome;
use crate::operator::worker::Worker;
use crate::protocol::Counts;
use crate::protocol::Digest;
use arrow_array::RecordBatch;

/// Sends a result to the worker.
pub struct OutputWriter<'a> {
    worker: &'a mut dyn Worker,
    hasher: Xxh3Default,
    rows: u64,
}

impl<'a> OutputWriter<'a> {
    /// Starts a result without rows.
    pub fn new(worker: &'a mut dyn Worker) -> Self {
        Self {
            worker,
            hasher: Xxh3Default::new(),
            rows: 0,
        }
    }

    /// The hasher to which every row must be added, in order.
    pub fn hasher(&mut self) -> &mut Xxh3Default {
        &mut self.hasher
    }

    /// Sends a batch whose rows have been added to the hasher.
    ///
    /// # Errors
    /// Those of the worker.
    pub fn emit(&mut self, batch: RecordBatch) -> Result<()> {
        self.rows += batch.num_rows() as u64;
        self.worker.emit(batch)
    }

    /// Sends rows of the input unchanged, in order.
    ///
    /// # Errors
    /// `Serialization` for columns of other types; those of the worker.
    pub fn emit_input_rows(
        &mut self,
        columns: &OutputColumns,
        rows: &InputRows,
        places: &[RowPlace],
    ) -> Result<()> {
        digest_input_rows(rows, places, &mut self.hasher);
        self.emit(columns.batch_of_rows(rows, places, &MatchedRight::none())?)
    }

    /// Ends the result, without a stream time. `counts` has all counts except that of the output
    /// rows.
    pub fn finish(self, input: &InputRows, counts: Counts) -> Outcome {
        Outcome {
            input: input.digest(),
            output: Digest::from_hasher(&self.hasher),
            counts: Counts {
                output_rows: self.rows,
                ..counts
            },
            stream_time: None,
        }
    }
}
