//! Windows and sessions as Arrow columns: `key` or `row`, start, end, `value`[, `timestamp`].

use crate::column::batch::{BATCH_BYTES, batch, check_size};
use crate::error::Result;
use crate::store::timestamped::Stamped;
use crate::store::windowed::WindowedKey;
use arrow_array::builder::{BinaryBuilder, Int64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::sync::Arc;

/// The names of the columns of a window's start and end.
pub const WINDOW: [&str; 2] = ["window_start", "window_end"];
/// The names of the columns of a session's start and end.
pub const SESSION: [&str; 2] = ["start", "end"];

/// Builds the columns of windows or sessions.
pub struct WindowedColumns {
    fields: Vec<Field>,
    /// The first column: the keys of a scan, or the row of the look-up that found each result.
    lead: LeadColumn,
    starts: Int64Builder,
    ends: Int64Builder,
    values: BinaryBuilder,
    timestamps: Option<Int64Builder>,
    rows: usize,
    bytes: usize,
}

enum LeadColumn {
    Keys(BinaryBuilder),
    Rows(Int64Builder),
}

impl WindowedColumns {
    /// Returns columns for the rows of a scan.
    pub fn of_scan(names: [&str; 2], timestamps: bool) -> Self {
        Self::new(
            Field::new("key", DataType::Binary, false),
            LeadColumn::Keys(BinaryBuilder::new()),
            names,
            timestamps,
        )
    }

    /// Returns columns for the rows that a batch of look-ups finds.
    pub fn of_batch(names: [&str; 2], timestamps: bool) -> Self {
        Self::new(
            Field::new("row", DataType::Int64, false),
            LeadColumn::Rows(Int64Builder::new()),
            names,
            timestamps,
        )
    }

    fn new(first: Field, lead: LeadColumn, [start, end]: [&str; 2], timestamps: bool) -> Self {
        let mut fields = vec![
            first,
            Field::new(start, DataType::Int64, false),
            Field::new(end, DataType::Int64, false),
            Field::new("value", DataType::Binary, false),
        ];
        if timestamps {
            fields.push(Field::new("timestamp", DataType::Int64, false));
        }
        Self {
            fields,
            lead,
            starts: Int64Builder::new(),
            ends: Int64Builder::new(),
            values: BinaryBuilder::new(),
            timestamps: timestamps.then(Int64Builder::new),
            rows: 0,
            bytes: 0,
        }
    }

    /// Returns the names and types of the columns.
    pub fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(self.fields.clone()))
    }

    /// Adds a row. `row` is the number of the look-up that found it; scans ignore it.
    pub fn append(&mut self, row: usize, key: WindowedKey<'_>, found: Stamped<'_>) {
        self.rows += 1;
        self.bytes = self.bytes.saturating_add(key.key.len() + found.value.len());
        if check_size(self.bytes).is_err() {
            // `finish` fails, so no row is needed any more.
            self.values = BinaryBuilder::new();
            self.lead = LeadColumn::Rows(Int64Builder::new());
            return;
        }
        match &mut self.lead {
            LeadColumn::Keys(keys) => keys.append_value(key.key),
            LeadColumn::Rows(rows) => rows.append_value(row as i64),
        }
        self.starts.append_value(key.start.0);
        self.ends.append_value(key.end.0);
        self.values.append_value(found.value);
        if let Some(timestamps) = &mut self.timestamps {
            timestamps.append_value(found.timestamp.0);
        }
    }

    /// Returns whether a batch of a scan has enough rows or bytes.
    pub fn is_full(&self, rows: usize) -> bool {
        self.rows >= rows || self.bytes >= BATCH_BYTES
    }

    /// Returns the batch.
    ///
    /// # Errors
    /// `InvalidValue` for 2 GiB or more of keys and values.
    pub fn finish(mut self) -> Result<RecordBatch> {
        check_size(self.bytes)?;
        let mut columns: Vec<ArrayRef> = vec![
            match &mut self.lead {
                LeadColumn::Keys(keys) => Arc::new(keys.finish()),
                LeadColumn::Rows(rows) => Arc::new(rows.finish()),
            },
            Arc::new(self.starts.finish()),
            Arc::new(self.ends.finish()),
            Arc::new(self.values.finish()),
        ];
        columns.extend(
            self.timestamps
                .as_mut()
                .map(|timestamps| Arc::new(timestamps.finish()) as ArrayRef),
        );
        batch(self.schema(), columns)
    }

    /// Returns the batch of a scan; `None` at its end.
    ///
    /// # Errors
    /// As `finish`.
    pub fn finish_scan(self) -> Result<Option<RecordBatch>> {
        if self.rows == 0 {
            Ok(None)
        } else {
            self.finish().map(Some)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::time::Timestamp;
    use arrow_array::builder::ArrayBuilder;

    #[test]
    fn batch_of_2_gib_holds_no_key_and_no_value() {
        let key = WindowedKey {
            key: b"key",
            start: Timestamp(0),
            end: Timestamp(10),
        };
        let found = Stamped {
            value: &[7; 100],
            timestamp: Timestamp(1),
        };
        for mut columns in [
            WindowedColumns::of_scan(WINDOW, true),
            WindowedColumns::of_batch(WINDOW, true),
        ] {
            columns.append(0, key, found);
            assert_eq!(columns.values.len(), 1);
            // As after almost 2 GiB of rows.
            columns.bytes = i32::MAX as usize - 1;
            for row in 1..3 {
                columns.append(row, key, found);
                let lead = match &columns.lead {
                    LeadColumn::Keys(keys) => keys.len(),
                    LeadColumn::Rows(rows) => rows.len(),
                };
                assert_eq!([lead, columns.values.len()], [0; 2], "row {row}");
                assert_eq!(columns.starts.len(), 1, "row {row}");
            }
            let error = columns.finish().expect_err("more than a column holds");
            assert_eq!(error.kind(), ErrorKind::InvalidValue);
        }
    }
}
