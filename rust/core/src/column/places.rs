//! The values that a batch of look-ups found.

use crate::column::batch::{batch, check_size};
use crate::error::Result;
use crate::store::timestamped::Stamped;
use crate::time::Timestamp;
use arrow_array::builder::{BinaryBuilder, Int64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use std::sync::Arc;

/// Values that are found in the order of their keys and returned in the order of the look-ups.
pub struct Places {
    data: Vec<u8>,
    places: Vec<Option<(std::ops::Range<usize>, Timestamp)>>,
}

impl Places {
    /// Returns `rows` rows without values.
    pub fn new(rows: usize) -> Self {
        Self {
            data: Vec::new(),
            places: vec![None; rows],
        }
    }

    /// Sets the value that was found for a row.
    pub fn put(&mut self, row: usize, found: Option<Stamped<'_>>) {
        self.places[row] = found.map(|found| {
            let start = self.data.len();
            self.data.extend_from_slice(found.value);
            (start..self.data.len(), found.timestamp)
        });
    }

    /// Removes all rows but the first `rows`.
    pub fn truncate(&mut self, rows: usize) {
        self.places.truncate(rows);
    }

    /// Returns the values.
    ///
    /// # Errors
    /// `InvalidValue` if they have more than 2 GiB.
    pub fn finish(&self) -> Result<ArrayRef> {
        check_size(self.data.len())?;
        let mut values = BinaryBuilder::with_capacity(self.places.len(), self.data.len());
        for place in &self.places {
            values.append_option(place.as_ref().map(|(place, _)| &self.data[place.clone()]));
        }
        Ok(Arc::new(values.finish()))
    }

    /// Returns the values with their timestamps.
    ///
    /// # Errors
    /// As `finish`.
    pub fn finish_stamped(&self) -> Result<RecordBatch> {
        let schema = vec![
            Field::new("value", DataType::Binary, true),
            Field::new("timestamp", DataType::Int64, true),
        ];
        let schema = Arc::new(Schema::new(schema));
        let mut timestamps = Int64Builder::with_capacity(self.places.len());
        for place in &self.places {
            timestamps.append_option(place.as_ref().map(|(_, time)| time.0));
        }
        batch(schema, vec![self.finish()?, Arc::new(timestamps.finish())])
    }
}
