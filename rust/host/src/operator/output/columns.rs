//! The columns of a result, and where each comes from.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, TimestampMicrosecondArray};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use holdfast_core::{Error, ErrorKind, Result};
use serde::Deserialize;

use crate::operator::input::{InputLayout, TIME};

/// A column of the result.
#[derive(Debug, Clone, Deserialize)]
pub struct OutputColumn {
    /// Its name.
    pub name: String,
    /// Where it comes from.
    #[serde(flatten)]
    pub source: ColumnSource,
}

/// Where a column of the result comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(tag = "from", rename_all = "snake_case")]
pub enum ColumnSource {
    /// A key column.
    Key {
        /// Which one.
        index: usize,
    },
    /// The left row's time.
    Time,
    /// A payload column of the left row.
    Left {
        /// Which one.
        index: usize,
    },
    /// A payload column of the matched right row.
    Right {
        /// Which one.
        index: usize,
    },
    /// The matched right row's time.
    RightTime,
}

/// The columns of a result.
pub struct OutputColumns {
    kind: &'static str,
    /// Where each column comes from.
    pub sources: Vec<ColumnSource>,
    schema: SchemaRef,
}

impl OutputColumns {
    /// Checks the result's columns against an input of this layout.
    ///
    /// # Errors
    /// `InvalidValue` names the column whose source does not exist.
    pub fn new(kind: &'static str, columns: &[OutputColumn], rows: &InputLayout) -> Result<Self> {
        let fields = columns.iter().map(|column| {
            let (place, missing) = match column.source {
                ColumnSource::Key { index } => (rows.keys.start + index, index >= rows.keys.len()),
                ColumnSource::Time | ColumnSource::RightTime => (TIME, false),
                ColumnSource::Left { index } => (rows.left.start + index, index >= rows.left.len()),
                ColumnSource::Right { index } => {
                    (rows.right.start + index, index >= rows.right.len())
                }
            };
            if missing {
                let text = format!(
                    "{kind}: output column {:?} comes from {:?}, which does not exist",
                    column.name, column.source
                );
                return Err(Error::new(ErrorKind::InvalidValue, text));
            }
            Ok(rows
                .field(place)
                .clone()
                .with_name(&column.name)
                .with_nullable(true))
        });
        let schema = Arc::new(Schema::new(fields.collect::<Result<Vec<Field>>>()?));
        Ok(Self {
            kind,
            sources: columns.iter().map(|column| column.source).collect(),
            schema,
        })
    }

    /// The columns' names and types.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Builds a batch of these columns, in order.
    ///
    /// # Errors
    /// `Serialization` for columns of other types.
    pub fn batch(&self, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
        RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(|error| self.failed(&error))
    }

    /// The error of columns that cannot become a batch.
    pub(super) fn failed(&self, error: &ArrowError) -> Error {
        Error::new(
            ErrorKind::Serialization,
            format!("{}: its output cannot be assembled: {error}", self.kind),
        )
    }
}

/// Gives times the type of the input's time column, with its time zone.
pub fn times_of(time_type: &DataType, times: TimestampMicrosecondArray) -> ArrayRef {
    match time_type {
        DataType::Timestamp(_, Some(zone)) => Arc::new(times.with_timezone(Arc::clone(zone))),
        _ => Arc::new(times),
    }
}
