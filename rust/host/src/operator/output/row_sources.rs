//! Where the columns of joined rows come from: rows of the input, or encoded bytes.

use std::iter::once;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::ArrowError;
use arrow_select::interleave::interleave;

use crate::operator::input::RowPlace;

/// The source of the key, or of one payload, of each joined row.
///
/// Rows of the input are copied column by column, which takes less time than to decode their bytes.
#[derive(Default)]
pub struct RowSources {
    /// A batch and a row in it. Batch 0 has the decoded rows; batch `n` of the input is `n + 1`.
    places: Vec<(usize, usize)>,
    /// Where the encoded rows are in the buffer of the joined rows; none for a row of nulls.
    encoded: Vec<Option<Range<usize>>>,
}

impl RowSources {
    /// Adds a row of the input.
    pub fn push_input(&mut self, place: RowPlace) {
        self.places.push((place.input() + 1, place.row()));
    }

    /// Adds an encoded row, or a row of nulls.
    pub fn push_encoded(&mut self, bytes: Option<Range<usize>>) {
        self.places.push((0, self.encoded.len()));
        self.encoded.push(bytes);
    }

    /// Removes the rows.
    pub fn clear(&mut self) {
        self.places.clear();
        self.encoded.clear();
    }

    /// Returns the encoded rows, which must be decoded.
    pub fn encoded<'a>(&self, buffer: &'a [u8]) -> impl Iterator<Item = Option<&'a [u8]>> {
        let ranges = self.encoded.iter().cloned();
        ranges.map(|range| range.map(|range| &buffer[range]))
    }

    /// Returns a column of all rows. `decoded` is the column of the encoded rows, and `column` the
    /// index of the same column in the input.
    ///
    /// # Errors
    /// If the columns have different types.
    pub fn column(
        &self,
        decoded: &ArrayRef,
        inputs: &[RecordBatch],
        column: usize,
    ) -> Result<ArrayRef, ArrowError> {
        if self.encoded.len() == self.places.len() {
            return Ok(Arc::clone(decoded));
        }
        let of_inputs = inputs.iter().map(|input| input.column(column));
        let arrays: Vec<&dyn Array> = once(decoded).chain(of_inputs).map(AsRef::as_ref).collect();
        interleave(&arrays, &self.places)
    }
}
