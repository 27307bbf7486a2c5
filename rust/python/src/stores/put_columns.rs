//! The results of a batch of puts into a versioned store.

use arrow_array::builder::{BooleanBuilder, Int64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use holdfast_core::column::batch;
use holdfast_core::{PutResult, Result};
use std::sync::Arc;

/// The results of a batch of puts, as columns.
pub struct PutColumns {
    accepted: BooleanBuilder,
    valid_to: Int64Builder,
}

impl PutColumns {
    /// Returns columns with room for `rows` rows.
    pub fn with_capacity(rows: usize) -> Self {
        Self {
            accepted: BooleanBuilder::with_capacity(rows),
            valid_to: Int64Builder::with_capacity(rows),
        }
    }

    /// Adds the result of a put.
    pub fn append(&mut self, result: PutResult) {
        self.accepted.append_value(result.accepted);
        self.valid_to
            .append_option(result.valid_to.map(|time| time.0));
    }

    /// Returns the columns as a batch.
    pub fn finish(mut self) -> Result<RecordBatch> {
        let fields = vec![
            Field::new("accepted", DataType::Boolean, false),
            Field::new("valid_to", DataType::Int64, true),
        ];
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.accepted.finish()),
            Arc::new(self.valid_to.finish()),
        ];
        batch(Arc::new(Schema::new(fields)), columns)
    }
}
