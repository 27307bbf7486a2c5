//! Imports a column from an object that has `__arrow_c_array__` or `__arrow_c_stream__`.
//!
//! The chunks of a stream are one column: row numbers count through all of them, and the whole
//! column is checked before any row is used.

use crate::arrow::column_stream;
use crate::run::import;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, TimeUnit};
use holdfast_core::column::{BytesColumn, bytes_column};
use holdfast_core::transaction::{LARGEST, check_row, check_size};
use holdfast_core::{Error, ErrorKind, Result, Timestamp};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3_arrow::PyArray;

/// An imported column.
pub struct Column<'a> {
    what: &'a str,
    chunks: Vec<ArrayRef>,
    rows: usize,
}

impl<'a> Column<'a> {
    /// Imports an argument; `what` names the column in errors.
    pub fn import(object: &Bound<'_, PyAny>, what: &'a str) -> PyResult<Self> {
        let py = object.py();
        if !object.hasattr("__arrow_c_array__")? && !object.hasattr("__arrow_c_stream__")? {
            return Err(PyTypeError::new_err(format!(
                "{what} is a {}; wanted: an Arrow array (anything with __arrow_c_array__ or \
                 __arrow_c_stream__, such as pyarrow.array or polars.Series)",
                object.get_type().name()?
            )));
        }
        let chunks = if object.hasattr("__arrow_c_array__")? {
            let array = import(py, what, || object.extract::<PyArray>())?;
            vec![array.into_inner().0]
        } else {
            column_stream::read(object, what)?
        };
        let rows = chunks.iter().map(|chunk| chunk.len()).sum();
        Ok(Self { what, chunks, rows })
    }

    /// Imports several arguments, each with its name.
    pub fn import_all<const N: usize>(
        arguments: [(&Bound<'_, PyAny>, &'a str); N],
    ) -> PyResult<[Self; N]> {
        let columns: Vec<Self> = arguments
            .into_iter()
            .map(|(object, what)| Self::import(object, what))
            .collect::<PyResult<_>>()?;
        columns
            .try_into()
            .map_err(|_| PyTypeError::new_err("wanted: columns"))
    }

    /// Imports an argument that may be missing.
    pub fn import_optional(
        object: Option<&Bound<'_, PyAny>>,
        what: &'a str,
    ) -> PyResult<Option<Self>> {
        object.map(|object| Self::import(object, what)).transpose()
    }

    /// Returns the arrays of the column, in order.
    pub fn chunks(&self) -> &[ArrayRef] {
        &self.chunks
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Fails unless the other columns have as many rows as this one.
    pub fn same_rows<'b>(&self, others: impl IntoIterator<Item = &'b Column<'b>>) -> Result<()> {
        let Some(other) = others.into_iter().find(|other| other.rows != self.rows) else {
            return Ok(());
        };
        Err(Error::new(
            ErrorKind::InvalidValue,
            format!(
                "{} has {} rows, {} has {}; a batch's columns must have the same length",
                self.what, self.rows, other.what, other.rows
            ),
        ))
    }

    /// Returns the column as bytes, null where it is null.
    ///
    /// A row that is too large for a store is an error that names the row.
    pub fn bytes(&self) -> Result<Bytes<'_>> {
        let chunks =
            self.chunks
                .iter()
                .map(|chunk| match chunk.data_type() {
                    DataType::Null => Ok((chunk.len(), None)),
                    _ => bytes_column(chunk.as_ref(), self.what)
                        .map(|bytes| (chunk.len(), Some(bytes))),
                })
                .collect::<Result<_>>()?;
        let bytes = Bytes {
            what: self.what,
            chunks,
            rows: self.rows,
        };
        // A row can only be too large if the buffers of its chunk are.
        if self
            .chunks
            .iter()
            .any(|chunk| chunk.get_buffer_memory_size() > LARGEST)
        {
            bytes.check_sizes()?;
        }
        Ok(bytes)
    }

    /// Returns the column as times; a null is an error that names its row.
    pub fn times(&self) -> Result<Vec<Timestamp>> {
        let mut times = Vec::with_capacity(self.rows);
        for chunk in &self.chunks {
            let chunk = decoded(chunk)?;
            if !is_untyped(&chunk) {
                self.check_no_null(&chunk, times.len(), "every row needs its time")?;
                self.append_times(&chunk, &mut times)?;
            }
        }
        Ok(times)
    }

    fn append_times(&self, chunk: &ArrayRef, times: &mut Vec<Timestamp>) -> Result<()> {
        let (values, factor) = match chunk.data_type() {
            DataType::Int64 => (chunk.as_primitive::<Int64Type>().values(), 1),
            DataType::Timestamp(TimeUnit::Second, _) => {
                let values = chunk.as_primitive::<TimestampSecondType>().values();
                (values, 1_000_000)
            }
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                let values = chunk.as_primitive::<TimestampMillisecondType>().values();
                (values, 1_000)
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                (chunk.as_primitive::<TimestampMicrosecondType>().values(), 1)
            }
            // Rounds down: a nanosecond before 1970 is in the last microsecond of 1969.
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                let values = chunk.as_primitive::<TimestampNanosecondType>().values();
                times.extend(
                    values
                        .iter()
                        .map(|value| Timestamp(value.div_euclid(1_000))),
                );
                return Ok(());
            }
            other => {
                return Err(Error::new(
                    ErrorKind::InvalidType,
                    format!(
                        "column {} has Arrow type {other}; wanted int64 (epoch microseconds) or \
                         timestamp of any unit and zone",
                        self.what
                    ),
                ));
            }
        };
        for value in values {
            let Some(time) = value.checked_mul(factor) else {
                return Err(Error::new(
                    ErrorKind::InvalidValue,
                    format!(
                        "row {} of {} does not fit 64 bits of microseconds (about 292,000 years)",
                        times.len(),
                        self.what
                    ),
                ));
            };
            times.push(Timestamp(time));
        }
        Ok(())
    }

    /// Fails if a row of a chunk is null; `first` is the number of the chunk's first row.
    fn check_no_null(&self, chunk: &ArrayRef, first: usize, advice: &str) -> Result<()> {
        let Some(nulls) = chunk.logical_nulls().filter(|nulls| nulls.null_count() > 0) else {
            return Ok(());
        };
        let row = first + (0..chunk.len()).find(|n| nulls.is_null(*n)).unwrap_or(0);
        Err(Error::new(
            ErrorKind::InvalidValue,
            format!("row {row} of {} is null; {advice}", self.what),
        ))
    }

    /// Returns the column as booleans; a null is an error that names its row.
    pub fn flags(&self) -> Result<Vec<bool>> {
        let mut flags = Vec::with_capacity(self.rows);
        for chunk in &self.chunks {
            let chunk = decoded(chunk)?;
            if is_untyped(&chunk) {
                continue;
            }
            if *chunk.data_type() != DataType::Boolean {
                return Err(Error::new(
                    ErrorKind::InvalidType,
                    format!(
                        "column {} has Arrow type {}; wanted bool",
                        self.what,
                        chunk.data_type()
                    ),
                ));
            }
            self.check_no_null(&chunk, flags.len(), "wanted: true or false")?;
            flags.extend(chunk.as_boolean().values().iter());
        }
        Ok(flags)
    }
}

/// A column of bytes whose type was checked.
pub struct Bytes<'a> {
    what: &'a str,
    /// For each chunk, its number of rows, and its bytes unless its type is null.
    chunks: Vec<(usize, Option<BytesColumn<'a>>)>,
    rows: usize,
}

impl Bytes<'_> {
    /// Returns all rows in order; they point into the caller's buffers.
    pub fn iter(&self) -> impl Iterator<Item = Option<&[u8]>> {
        self.chunks.iter().flat_map(|(rows, column)| {
            (0..*rows).map(move |row| column.as_ref().and_then(|column| column.get(row)))
        })
    }

    /// Returns all rows in order; a null is an error that names its row.
    pub fn non_null(&self) -> Result<impl Iterator<Item = &[u8]>> {
        self.check_keys()?;
        Ok(self.iter().flatten())
    }

    /// Returns all rows in order, as a vector.
    pub fn slices(&self) -> Vec<Option<&[u8]>> {
        let mut slices = Vec::with_capacity(self.rows);
        slices.extend(self.iter());
        slices
    }

    fn check_sizes(&self) -> Result<()> {
        self.iter().enumerate().try_for_each(|(row, bytes)| {
            check_size(bytes.map_or(0, <[u8]>::len)).map_err(|error| {
                let message = format!("row {row} of {}: {error}", self.what);
                Error::new(error.kind(), message)
            })
        })
    }

    /// Fails if a row is null, and names the first such row.
    pub fn check_keys(&self) -> Result<()> {
        match self.iter().position(|key| key.is_none()) {
            None => Ok(()),
            Some(row) => Err(Error::new(
                ErrorKind::InvalidValue,
                format!(
                    "row {row} of {} is null; a key must have a value",
                    self.what
                ),
            )),
        }
    }

    /// Returns all rows in order, as a vector; a null is an error that names its row.
    pub fn keys(&self) -> Result<Vec<&[u8]>> {
        let mut keys = Vec::with_capacity(self.rows);
        keys.extend(self.non_null()?);
        Ok(keys)
    }
}

/// Fails if an entry is too large for a store, and names the entry.
pub fn check_entries<'a>(
    entries: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
) -> Result<()> {
    for (n, (key, value)) in entries.enumerate() {
        check_row(key, value)
            .map_err(|error| Error::new(error.kind(), format!("entry {n}: {error}")))?;
    }
    Ok(())
}

/// Whether a chunk has no rows and therefore no known type.
fn is_untyped(array: &ArrayRef) -> bool {
    array.is_empty() && *array.data_type() == DataType::Null
}

/// Decodes a dictionary; other arrays stay as they are.
fn decoded(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Dictionary(_, values) => arrow_cast::cast(array, values).map_err(|error| {
            Error::new(
                ErrorKind::InvalidValue,
                format!("decoding a dictionary failed: {error}"),
            )
        }),
        _ => Ok(array.clone()),
    }
}
