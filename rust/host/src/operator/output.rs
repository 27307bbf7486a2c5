//! The result's columns: where each comes from, and how rows become a batch of them.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, TimestampMicrosecondArray};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use arrow_select::interleave::interleave;
use holdfast_core::{Error, ErrorKind, Result};
use serde::Deserialize;
use xxhash_rust::xxh3::Xxh3Default;

use super::rows::{Input, Layout, Place, Rows, TIME};

/// A column of the result.
#[derive(Debug, Clone, Deserialize)]
pub struct OutputColumn {
    /// Its name.
    pub name: String,
    /// Where it comes from.
    #[serde(flatten)]
    pub source: Source,
}

/// Where a column of the result comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(tag = "from", rename_all = "snake_case")]
pub enum Source {
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
pub struct Output {
    kind: &'static str,
    /// Where each column comes from.
    pub(super) sources: Vec<Source>,
    schema: SchemaRef,
}

impl Output {
    /// The result's columns for an input of this layout.
    ///
    /// # Errors
    /// `InvalidValue` names the column that comes from nowhere.
    pub fn new(kind: &'static str, columns: &[OutputColumn], rows: &Layout) -> Result<Self> {
        let fields = columns.iter().map(|column| {
            let (place, missing) = match column.source {
                Source::Key { index } => (rows.keys.start + index, index >= rows.keys.len()),
                Source::Time | Source::RightTime => (TIME, false),
                Source::Left { index } => (rows.left.start + index, index >= rows.left.len()),
                Source::Right { index } => (rows.right.start + index, index >= rows.right.len()),
            };
            if missing {
                let text = format!(
                    "{kind}: output column {:?} comes from {:?}, which is not there",
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

    /// A batch of left rows of the input. `right`: the payload columns and the times of what they
    /// matched, if anything can.
    ///
    /// # Errors
    /// `Serialization` for columns of other types.
    pub fn of_places(&self, rows: &Rows, places: &[Place], right: &Right) -> Result<RecordBatch> {
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
            Source::Key { index } => taken(layout.keys.start + index),
            Source::Time => taken(TIME),
            Source::Left { index } => taken(layout.left.start + index),
            Source::Right { index } => Ok(Arc::clone(&right.values[index])),
            Source::RightTime => Ok(times_of(&layout.time_type, right.times.clone())),
        });
        self.batch(columns.collect::<Result<Vec<ArrayRef>>>()?)
    }

    /// A batch of these columns, in order.
    ///
    /// # Errors
    /// `Serialization` for columns of other types.
    pub fn batch(&self, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
        RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &ArrowError) -> Error {
        Error::new(
            ErrorKind::Serialization,
            format!("{}: its output cannot be assembled: {error}", self.kind),
        )
    }
}

/// What left rows matched, column by column.
pub struct Right {
    /// The payload columns.
    pub values: Vec<ArrayRef>,
    /// The times.
    pub times: TimestampMicrosecondArray,
}

impl Right {
    /// That of an operator of one side: nothing.
    pub fn none() -> Self {
        Self {
            values: Vec::new(),
            times: TimestampMicrosecondArray::from(Vec::<i64>::new()),
        }
    }
}

/// Adds left rows that go out as they came in, in order, to a digest.
pub fn digest_places(inputs: &[Input], places: &[Place], digest: &mut Xxh3Default) {
    for place in places {
        digest.update(&inputs[place.input()].hashes[place.row()].to_be_bytes());
    }
}

/// Times as the input has them, with its zone.
pub fn times_of(time_type: &DataType, times: TimestampMicrosecondArray) -> ArrayRef {
    match time_type {
        DataType::Timestamp(_, Some(zone)) => Arc::new(times.with_timezone(Arc::clone(zone))),
        _ => Arc::new(times),
    }
}
