//! The arguments of a call that a processor's store sends to the state host. They are columns of
//! the types that the host reads.

use crate::arrow::column::Column;
use crate::run::{run, run_attached};
use arrow_array::{Array, ArrayRef, BinaryArray, BooleanArray, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use holdfast_core::column::batch;
use holdfast_core::transaction::check_size;
use holdfast_core::{Error, ErrorKind, Process, Result};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyList;
use std::sync::Arc;

/// A column of a call: its name, its kind and its values.
///
/// The kind is `key` (bytes, none null), `bytes`, `time` or `flag`. The values are a Python list or
/// an object with the Arrow PyCapsule interface.
#[derive(FromPyObject)]
pub struct CallArgument<'py>(String, String, Bound<'py, PyAny>);

/// Returns the batch of a call: binary, int64 and boolean columns of one length.
///
/// Errors name the argument and the row.
pub fn call_batch(py: Python<'_>, arguments: &[CallArgument<'_>]) -> PyResult<RecordBatch> {
    let columns: Vec<ArrayRef> = arguments
        .iter()
        .map(CallArgument::column)
        .collect::<PyResult<_>>()?;
    run_attached(py, || {
        let Some((first, others)) = columns.split_first() else {
            return Ok(RecordBatch::new_empty(Arc::new(Schema::empty())));
        };
        let first = first.len();
        if let Some(other) = others.iter().position(|column| column.len() != first) {
            let message = format!(
                "{} has {first} rows, {} has {}; a batch's columns must have the same length",
                arguments[0].0,
                arguments[other + 1].0,
                others[other].len()
            );
            return Err(Error::new(ErrorKind::InvalidValue, message));
        }
        let fields: Vec<Field> = arguments
            .iter()
            .zip(&columns)
            .map(|(argument, column)| Field::new(&argument.0, column.data_type().clone(), true))
            .collect();
        batch(Arc::new(Schema::new(fields)), columns)
    })
}

impl CallArgument<'_> {
    fn column(&self) -> PyResult<ArrayRef> {
        match self.2.cast::<PyList>() {
            Ok(list) => self.of_list(list),
            Err(_) => self.of_arrow(),
        }
    }

    fn of_list(&self, list: &Bound<'_, PyList>) -> PyResult<ArrayRef> {
        Ok(match self.1.as_str() {
            "time" => Arc::new(Int64Array::from(list.extract::<Vec<i64>>()?)),
            "flag" => Arc::new(BooleanArray::from(list.extract::<Vec<bool>>()?)),
            "key" => {
                let keys = list.extract::<Vec<PyBackedBytes>>()?;
                let rows: Vec<Option<&[u8]>> = keys.iter().map(|key| Some(&key[..])).collect();
                run_attached(list.py(), || binary(&self.0, &rows))?
            }
            _ => {
                let values = list.extract::<Vec<Option<PyBackedBytes>>>()?;
                let rows: Vec<Option<&[u8]>> = values.iter().map(Option::as_deref).collect();
                run_attached(list.py(), || binary(&self.0, &rows))?
            }
        })
    }

    fn of_arrow(&self) -> PyResult<ArrayRef> {
        let (what, kind) = (self.0.as_str(), self.1.as_str());
        let column = Column::import(&self.2, what)?;
        run(self.2.py(), Process::current(), || {
            canonical(&column, what, kind)
        })
    }
}

/// Converts an Arrow column to the type that the host reads.
fn canonical(column: &Column<'_>, what: &str, kind: &str) -> Result<ArrayRef> {
    let unchanged = |wanted: &DataType| match column.chunks() {
        [chunk] if chunk.data_type() == wanted => Some(Arc::clone(chunk)),
        _ => None,
    };
    Ok(match kind {
        "time" => Arc::new(
            column
                .times()?
                .into_iter()
                .map(|time| time.0)
                .collect::<Int64Array>(),
        ),
        "flag" => Arc::new(BooleanArray::from(column.flags()?)),
        kind => {
            let bytes = column.bytes()?;
            if kind == "key" {
                bytes.check_keys()?;
            }
            match unchanged(&DataType::Binary) {
                Some(array) => array,
                None => binary(what, &bytes.slices())?,
            }
        }
    })
}

/// Returns rows of bytes as a column; `what` names it in errors.
///
/// # Errors
/// `InvalidValue` for a row that is too large for a store, and for more rows than a column holds.
/// `BinaryArray` itself would panic.
fn binary(what: &str, rows: &[Option<&[u8]>]) -> Result<ArrayRef> {
    let mut bytes = 0_usize;
    for (row, value) in rows.iter().enumerate() {
        let size = value.map_or(0, <[u8]>::len);
        check_size(size)
            .map_err(|error| Error::new(error.kind(), format!("row {row} of {what}: {error}")))?;
        bytes += size;
    }
    if i32::try_from(bytes).is_err() {
        let message = format!(
            "{what} has {bytes} bytes, which is more than can be sent at once; give fewer rows at \
             once"
        );
        return Err(Error::new(ErrorKind::InvalidValue, message));
    }
    Ok(Arc::new(BinaryArray::from_iter(rows.iter().copied())))
}
