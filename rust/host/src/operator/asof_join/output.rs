//! The result's columns, assembled column by column.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, TimestampMicrosecondArray};
use arrow_schema::{ArrowError, DataType};
use arrow_select::interleave::interleave;
use holdfast_core::{Error, ErrorKind, Result};

use super::Source;
use super::layout::Layout;
use super::lookup::Matches;
use crate::operator::rows::{Rows, TIME};

/// The output batch of some matches; none if there are none.
pub fn assemble(layout: &Layout, rows: &Rows, matches: &Matches) -> Result<Option<RecordBatch>> {
    if matches.rows.is_empty() {
        return Ok(None);
    }
    let places: Vec<(usize, usize)> = matches.rows.iter().map(|place| (place.input(), place.row())).collect();
    let taken = |column: usize| {
        let arrays: Vec<&dyn Array> = rows.inputs.iter().map(|input| input.batch.column(column).as_ref()).collect();
        interleave(&arrays, &places).map_err(|error| failed(&error))
    };
    let values = rows.layout.right_codec.decode(matches.values())?;
    let columns = layout.output.iter().map(|source| match *source {
        Source::Key { index } => taken(rows.layout.keys.start + index),
        Source::Time => taken(TIME),
        Source::Left { index } => taken(rows.layout.left.start + index),
        Source::Right { index } => Ok(Arc::clone(&values[index])),
        Source::RightTime => Ok(right_times(&rows.layout.time_type, matches)),
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
    RecordBatch::try_new(Arc::clone(&layout.output_schema), columns).map(Some).map_err(|error| failed(&error))
}

fn right_times(time_type: &DataType, matches: &Matches) -> ArrayRef {
    let times: TimestampMicrosecondArray = matches.times().collect();
    match time_type {
        DataType::Timestamp(_, Some(zone)) => Arc::new(times.with_timezone(Arc::clone(zone))),
        _ => Arc::new(times),
    }
}

fn failed(error: &ArrowError) -> Error {
    Error::new(ErrorKind::Serialization, format!("join_asof: its output cannot be assembled: {error}"))
}
