//! A column that comes as a stream. It is asked for once: some give the rest of the same stream
//! when they are asked again, and what was read before would be missing in silence.

#![allow(
    unsafe_code,
    reason = "a stream says of what type it is without being taken, which no crate offers"
)]

use crate::error::{holdfast_error, to_python};
use crate::run::{Owner, catch, run};
use arrow_array::ArrayRef;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_schema::DataType;
use holdfast_core::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use pyo3_arrow::PyArrayReader;

/// All arrays of a stream, at least one.
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
    // arrow-rs trusts what it is given, and may panic.
    let trusting = |words| holdfast_error(py, "Holdfast", format!("{what}: {words}"));
    let untyped = catch(|| data_type(&capsule))
        .map_err(trusting)?
        .is_some_and(|data_type| has_untyped(&data_type));
    let pyarrow = if untyped {
        py.import("pyarrow").ok()
    } else {
        None
    };
    let hint = if untyped && pyarrow.is_none() {
        "; it has a column without a type, which some give in a form that only pyarrow reads: give \
         the column a type (polars: dtype=...), or install pyarrow"
    } else {
        ""
    };
    let stream: PyArrayReader = match pyarrow {
        // polars gives such a column a buffer, which the format has none for
        // (<https://arrow.apache.org/docs/format/Columnar.html#buffer-listing-for-each-layout>) and
        // arrow-rs refuses; pyarrow takes it, and hands it on as it should be.
        Some(pyarrow) => {
            let column = pyarrow.call_method1("chunked_array", (Asked(capsule.unbind()),));
            column
                .map_err(|error| to_python(py, &failed(error.to_string())))?
                .extract()?
        }
        None => catch(|| PyArrayReader::from_arrow_pycapsule(&capsule)).map_err(trusting)??,
    };
    let reader = stream.into_reader()?;
    let field = reader.field();
    // A stream's producer may be slow, or Python itself.
    let arrays = run(py, Owner::current(), move || {
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

/// The type of a stream's arrays; who then takes the stream reads it from its beginning, and is
/// told what is wrong with it.
fn data_type(capsule: &Bound<'_, PyCapsule>) -> Option<DataType> {
    let stream = capsule
        .pointer_checked(Some(c"arrow_array_stream"))
        .ok()?
        .cast::<FFI_ArrowArrayStream>()
        .as_ptr();
    let mut schema = FFI_ArrowSchema::empty();
    // SAFETY: a capsule of this name holds a stream, for as long as it lives, and nobody else uses
    // it meanwhile: it was made for us. A stream that is not released has all of its functions, and
    // this one may be called at any time.
    let told = unsafe {
        let get_schema = (*stream).release.and((*stream).get_schema)?;
        get_schema(stream, &raw mut schema)
    };
    if told == 0 {
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

/// A stream that was asked for and not taken, for whoever asks next.
#[pyclass(frozen)]
struct Asked(Py<PyCapsule>);

#[pymethods]
impl Asked {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__(
        &self,
        py: Python<'_>,
        requested_schema: Option<Bound<'_, PyAny>>,
    ) -> Py<PyCapsule> {
        // Only a wish, which whoever gives the stream need not fulfil.
        drop(requested_schema);
        self.0.clone_ref(py)
    }
}
