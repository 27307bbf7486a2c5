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
///
/// Equal values that are found one after another are held once.
pub struct Places {
    data: Vec<u8>,
    /// The place of the value that was found last.
    last: std::ops::Range<usize>,
    /// Bytes of all values that were put. Equal values each count: the column repeats them.
    bytes: usize,
    places: Vec<Option<(std::ops::Range<usize>, Timestamp)>>,
}

impl Places {
    /// Returns `rows` rows without values.
    pub fn new(rows: usize) -> Self {
        Self {
            data: Vec::new(),
            last: 0..0,
            bytes: 0,
            places: vec![None; rows],
        }
    }

    /// Sets the value of a row; `None` if none was found.
    pub fn put(&mut self, row: usize, found: Option<Stamped<'_>>) {
        self.places[row] = found.map(|found| (self.hold(found.value), found.timestamp));
    }

    fn hold(&mut self, value: &[u8]) -> std::ops::Range<usize> {
        self.bytes = self.bytes.saturating_add(value.len());
        if check_size(self.bytes).is_err() {
            // `finish` fails, so no value is needed any more.
            self.data = Vec::new();
            self.last = 0..0;
            return 0..0;
        }
        if self.data[self.last.clone()] != *value {
            let start = self.data.len();
            self.data.extend_from_slice(value);
            self.last = start..self.data.len();
        }
        self.last.clone()
    }

    /// Removes all rows but the first `rows`.
    pub fn truncate(&mut self, rows: usize) {
        self.places.truncate(rows);
    }

    /// Returns the values.
    ///
    /// # Errors
    /// `InvalidValue` if the values that were put have 2 GiB or more, truncated ones included.
    pub fn finish(&self) -> Result<ArrayRef> {
        check_size(self.bytes)?;
        let mut values = BinaryBuilder::with_capacity(self.places.len(), self.bytes);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use arrow_array::cast::AsArray;

    fn stamped(value: &[u8]) -> Option<Stamped<'_>> {
        Some(Stamped {
            value,
            timestamp: Timestamp(7),
        })
    }

    #[test]
    fn equal_values_are_held_once_and_too_many_bytes_are_not_held() {
        let value = vec![1; 1 << 20];
        let mut places = Places::new(3_000);
        for row in 0..3_000 {
            places.put(row, stamped(&value));
            assert!(places.data.capacity() <= 2 << 20, "row {row}");
        }
        let error = places.finish().expect_err("2.9 GiB");
        assert_eq!(error.kind(), ErrorKind::InvalidValue);
    }

    #[test]
    fn values_are_returned_in_the_order_of_the_look_ups() -> Result<()> {
        let mut places = Places::new(6);
        let found: [(usize, Option<&[u8]>); 6] = [
            (4, Some(&b"one"[..])),
            (2, Some(b"one")),
            (0, Some(b"two")),
            (5, None),
            (1, Some(b"")),
            (3, Some(b"one")),
        ];
        for (row, value) in found {
            places.put(row, value.and_then(stamped));
        }
        let column = places.finish()?;
        let values: Vec<Option<&[u8]>> = column.as_binary::<i32>().iter().collect();
        let mut wanted = [None; 6];
        for (row, value) in found {
            wanted[row] = value;
        }
        assert_eq!(values, wanted);
        Ok(())
    }
}
