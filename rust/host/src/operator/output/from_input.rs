//! Batches of a result from rows of the input.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, TimestampMicrosecondArray};
use arrow_select::interleave::interleave;
use holdfast_core::Result;

use super::columns::{ColumnSource, OutputColumns, times_of};
use crate::operator::input::{InputRows, RowPlace, TIME};

/// The right rows that left rows matched, column by column.
pub struct MatchedRight {
    /// The payload columns.
    pub values: Vec<ArrayRef>,
    /// The times.
    pub times: TimestampMicrosecondArray,
}

impl MatchedRight {
    /// Returns no columns, for an operator that has only a left side.
    pub fn none() -> Self {
        Self {
            values: Vec::new(),
            times: TimestampMicrosecondArray::from(Vec::<i64>::new()),
        }
    }
}

impl OutputColumns {
    /// Builds a batch of left rows of the input, each with the right row that it matched.
    ///
    /// # Errors
    /// `Serialization` for columns of other types.
    pub fn batch_of_rows(
        &self,
        rows: &InputRows,
        places: &[RowPlace],
        right: &MatchedRight,
    ) -> Result<RecordBatch> {
        let places: Vec<(usize, usize)> = places
            .iter()
            .map(|place| (place.input(), place.row()))
            .collect();
        let taken = |column: usize| {
            let arrays: Vec<&dyn Array> = rows
                .inputs
                .iter()
                .map(|input| input.batch.column(column).as_ref())
                .collect();
            interleave(&arrays, &places).map_err(|error| self.failed(&error))
        };
        let layout = &rows.layout;
        let columns = self.sources.iter().map(|source| match *source {
            ColumnSource::Key { index } => taken(layout.keys.start + index),
            ColumnSource::Time => taken(TIME),
            ColumnSource::Left { index } => taken(layout.left.start + index),
            ColumnSource::Right { index } => Ok(Arc::clone(&right.values[index])),
            ColumnSource::RightTime => Ok(times_of(layout.time_type(), right.times.clone())),
        });
        self.batch(columns.collect::<Result<Vec<ArrayRef>>>()?)
    }
}
