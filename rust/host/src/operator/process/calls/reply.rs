//! The answer of a store to a call.

use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use holdfast_core::column::batch;
use holdfast_core::{NO_TIMESTAMP, Result, Stamped, Timestamp};

/// The rows of a scan, page by page.
pub struct Pages {
    /// The columns.
    pub schema: SchemaRef,
    /// Makes the next page, of at most this many rows; none at the end.
    pub next: Box<dyn FnMut(usize) -> Result<Option<RecordBatch>>>,
}

impl Pages {
    /// Pages of these columns. `next` makes a page of at most the given number of rows; none at the
    /// end.
    pub fn new(
        schema: SchemaRef,
        next: impl FnMut(usize) -> Result<Option<RecordBatch>> + 'static,
    ) -> Self {
        Self {
            schema,
            next: Box::new(next),
        }
    }
}

/// The answer of a store.
pub enum Reply {
    /// A batch.
    Batch(RecordBatch),
    /// Rows that may not fit into one batch.
    Pages(Pages),
}

impl Reply {
    /// A batch without rows and columns: the call is done.
    pub fn done() -> Self {
        Self::Batch(RecordBatch::new_empty(Arc::new(Schema::empty())))
    }

    /// One number, or a null.
    pub fn number(number: Option<i64>) -> Result<Self> {
        let schema = Schema::new(vec![Field::new("number", DataType::Int64, true)]);
        batch(
            Arc::new(schema),
            vec![Arc::new(Int64Array::from(vec![number]))],
        )
        .map(Self::Batch)
    }

    /// A store's stream time.
    pub fn time(time: Option<Timestamp>) -> Result<Self> {
        Self::number(time.map(|time| time.0))
    }
}

/// A value of a store without timestamps.
pub fn without_timestamp(value: &[u8]) -> Stamped<'_> {
    Stamped {
        value,
        timestamp: NO_TIMESTAMP,
    }
}
