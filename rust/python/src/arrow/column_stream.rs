//! Import of a column from an Arrow stream.
//!
//! `__arrow_c_stream__` is called once per object. Some producers return the rest of the same
//! stream for a second call: the rows that were read before would be missing without an error.

#![allow(
    unsafe_code,
    reason = "no crate offers to read a stream's type without taking the stream"
)]

use crate::run::{import, run, run_attached};
use arrow_array::ArrayRef;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_schema::DataType;
use holdfast_core::{Error, ErrorKind, Process};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use pyo3_arrow::PyArrayReader;

/// Returns all arrays of a stream, at least one.
pub fn read(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Vec<ArrayRef>> {
    let py = object.py();
    let failed = |error: String| {
        Error::new(
            ErrorKind::InvalidValue,
            format!("{what}: reading the Arrow stream failed: {error}"),
        )
    };
    let capsule = object
        .call_method0("__arrow_c_stream__")?
        .cast_into::<PyCapsule>()?;
    let untyped = import(py, what, || Ok(data_type(&capsule)))?
        .is_some_and(|data_type| has_untyped(&data_type));
    let pyarrow = if untyped {
        py.import("pyarrow").ok()
    } else {
        None
    };
    let hint = if untyped && pyarrow.is_none() {
        "; it has a column without a type, which some libraries export in a form that only pyarrow \
         reads: give the column a type (polars: dtype=...), or install pyarrow"
    } else {
        ""
    };
    let stream: PyArrayReader = match pyarrow {
        // polars exports a null column with a buffer. The format has none for this layout
        // (<https://arrow.apache.org/docs/format/Columnar.html#buffer-listing-for-each-layout>), so
        // arrow-rs rejects it. pyarrow accepts it and exports it without the buffer.
        Some(pyarrow) => {
            let column = pyarrow.call_method1("chunked_array", (UnreadStream(capsule.unbind()),));
            run_attached(py, || column.map_err(|error| failed(error.to_string())))?.extract()?
        }
        None => import(py, what, || PyArrayReader::from_arrow_pycapsule(&capsule))?,
    };
    let reader = stream.into_reader()?;
    let field = reader.field();
    // Without the GIL: the producer may be slow, or may need the GIL itself.
    let arrays = run(py, Process::current(), move || {
        reader
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| failed(format!("{error}{hint}")))
    })?;
    Ok(if arrays.is_empty() {
        vec![arrow_array::new_empty_array(field.data_type())]
    } else {
        arrays
    })
}

/// Returns the type of a stream's arrays; `None` if the stream does not return it.
///
/// The stream is not read: its consumer reads it from the beginning, and reports its errors.
fn data_type(capsule: &Bound<'_, PyCapsule>) -> Option<DataType> {
    let stream = capsule
        .pointer_checked(Some(c"arrow_array_stream"))
        .ok()?
        .cast::<FFI_ArrowArrayStream>()
        .as_ptr();
    let mut schema = FFI_ArrowSchema::empty();
    // SAFETY: a capsule of this name holds a stream for as long as it lives, and it was made for
    // this call, so no other thread uses it. A stream that is not released has all of its
    // functions, and `get_schema` may be called at any time.
    let status = unsafe {
        let get_schema = (*stream).release.and((*stream).get_schema)?;
        get_schema(stream, &raw mut schema)
    };
    if status == 0 {
        DataType::try_from(&schema).ok()
    } else {
        None
    }
}

fn has_untyped(data_type: &DataType) -> bool {
    match data_type {
        DataType::Null => true,
        DataType::Struct(fields) => fields.iter().any(|field| has_untyped(field.data_type())),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::Map(item, _) => has_untyped(item.data_type()),
        _ => false,
    }
}

/// A stream that was exported and not read yet, as an object that exports it again.
#[pyclass(frozen)]
struct UnreadStream(Py<PyCapsule>);

#[pymethods]
impl UnreadStream {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__(
        &self,
        py: Python<'_>,
        requested_schema: Option<Bound<'_, PyAny>>,
    ) -> Py<PyCapsule> {
        // The protocol lets a producer ignore the requested schema.
        drop(requested_schema);
        self.0.clone_ref(py)
    }
}
