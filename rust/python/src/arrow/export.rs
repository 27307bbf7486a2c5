//! Exports arrays, batches and streams with the PyCapsule interface, which pyarrow, polars and
//! pandas read.
//!
//! All are exported with their own types. A cast to a requested type would be arrow-rs's, which
//! turns values that do not fit into nulls. The consumer's cast checks them.

use crate::messages::with_messages_after;
use crate::run::{catch, drop_without_gil, import, run, run_attached};
use arrow_array::{Array, ArrayRef, RecordBatch, StructArray};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, SchemaRef};
use holdfast_core::{Error, ErrorKind, Process, Result};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use pyo3_arrow::PyDataType;
use pyo3_arrow::ffi::{
    ArrayIterator, to_array_pycapsules, to_schema_pycapsule, to_stream_pycapsule,
};
use std::sync::Arc;

/// A column.
#[pyclass(frozen, module = "holdfast._core")]
pub struct ArrowArray {
    array: ArrayRef,
}

impl ArrowArray {
    /// Wraps an array.
    pub fn new(array: ArrayRef) -> Self {
        Self { array }
    }

    /// Returns the array inside.
    pub fn array(&self) -> &ArrayRef {
        &self.array
    }

    fn field(&self) -> FieldRef {
        Arc::new(Field::new("", self.array.data_type().clone(), true))
    }
}

#[pymethods]
impl ArrowArray {
    fn __len__(&self) -> usize {
        self.array.len()
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        Ok(to_schema_pycapsule(py, self.array.data_type())?)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        check_requested(py, requested_schema.as_ref(), self.array.data_type())?;
        Ok(to_array_pycapsules(py, self.field(), &self.array, None)?)
    }
}

/// Returns the array in an [`ArrowArray`]: keys that this binding has encoded, and that errors can
/// show. `None` for other objects.
pub fn encoded_keys(keys: Option<&Bound<'_, PyAny>>) -> Option<ArrayRef> {
    let keys = keys?.cast::<ArrowArray>().ok()?;
    Some(Arc::clone(keys.get().array()))
}

/// Columns of one length.
#[pyclass(frozen, module = "holdfast._core")]
pub struct ArrowBatch {
    batch: RecordBatch,
}

impl ArrowBatch {
    /// Wraps a batch.
    pub fn new(batch: RecordBatch) -> Self {
        Self { batch }
    }

    /// Returns the batch inside.
    pub fn batch(&self) -> &RecordBatch {
        &self.batch
    }
}

#[pymethods]
impl ArrowBatch {
    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.batch
            .schema_ref()
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .collect()
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        Ok(to_schema_pycapsule(py, self.batch.schema_ref().as_ref())?)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        // The protocol lets a producer ignore the requested schema.
        drop(requested_schema);
        let array = StructArray::from(self.batch.clone());
        let field = struct_field(self.batch.schema_ref());
        Ok(to_array_pycapsules(py, field, &array, None)?)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let array: ArrayRef = Arc::new(StructArray::from(self.batch.clone()));
        let one = ArrayIterator::new(
            std::iter::once(Ok(array)),
            struct_field(self.batch.schema_ref()),
        );
        Ok(to_stream_pycapsule(py, Box::new(one), None)?)
    }
}

/// Batches that are made when they are read.
pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// A stream of batches, read once: by `for`, or by the consumer that takes it through
/// `__arrow_c_stream__`.
#[pyclass(frozen, module = "holdfast._core")]
pub struct ArrowReader {
    process: Process,
    schema: SchemaRef,
    batches: Mutex<Option<Batches>>,
}

impl ArrowReader {
    /// Wraps batches of a schema.
    pub fn new(schema: SchemaRef, batches: Batches) -> Self {
        Self {
            process: Process::current(),
            schema,
            batches: Mutex::new(Some(batches)),
        }
    }

    /// Wraps the batches that `next` makes, until it returns none.
    pub fn from_fn(
        schema: SchemaRef,
        mut next: impl FnMut() -> Result<Option<RecordBatch>> + Send + 'static,
    ) -> Self {
        let batches = std::iter::from_fn(move || next().transpose());
        Self::new(schema, Box::new(batches))
    }

    /// Returns the names and types of the columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Takes the batches out of the reader; a second call fails. It waits without the GIL for a
    /// batch that another thread reads.
    pub fn take(&self, py: Python<'_>) -> PyResult<Batches> {
        run(py, self.process, || {
            self.batches.lock().take().ok_or_else(taken)
        })
    }
}

impl Drop for ArrowReader {
    fn drop(&mut self) {
        // Its scan may hold the last reference to files of the database.
        let batches = self.batches.get_mut().take();
        drop_without_gil(|| drop(batches));
    }
}

/// Returns the next batch, and drops the source and its pinned view at the end.
///
/// An error or a panic is also the end: the source may have dropped rows that it had read.
fn next_batch(batches: &mut Batches) -> Option<Result<RecordBatch>> {
    let ended = Box::new(std::iter::repeat_with(|| Err(ended_by_error())));
    let mut source = std::mem::replace(batches, ended);
    let next = source.next();
    match &next {
        Some(Ok(_)) => *batches = source,
        None => *batches = Box::new(std::iter::empty()),
        Some(Err(_)) => {}
    }
    next
}

fn ended_by_error() -> Error {
    Error::new(
        ErrorKind::InvalidState,
        "this reader ended with an error; open another",
    )
}

fn taken() -> Error {
    Error::new(
        ErrorKind::InvalidState,
        "this reader was already exported through __arrow_c_stream__; read the store again",
    )
}

#[pymethods]
impl ArrowReader {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<ArrowBatch>> {
        let next = run(py, self.process, || {
            next_batch(self.batches.lock().as_mut().ok_or_else(taken)?).transpose()
        })?;
        Ok(next.map(ArrowBatch::new))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        Ok(to_schema_pycapsule(py, self.schema.as_ref())?)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let mut batches = self.take(py)?;
        let process = self.process;
        // The consumer calls this from C; a panic must not unwind into it.
        let arrays = std::iter::from_fn(move || {
            // A handler of Python's may use the database, so it gets messages after the call.
            let next = with_messages_after(|| {
                catch(|| {
                    process
                        .check()
                        .map_or_else(|error| Some(Err(error)), |()| next_batch(&mut batches))
                })
            });
            let next =
                next.unwrap_or_else(|panic| Some(Err(Error::new(ErrorKind::InvalidState, panic))));
            next.map(|batch| match batch {
                Ok(batch) => Ok(Arc::new(StructArray::from(batch)) as ArrayRef),
                Err(error) => Err(ArrowError::ExternalError(Box::new(error))),
            })
        });
        Ok(to_stream_pycapsule(
            py,
            Box::new(ArrayIterator::new(arrays, struct_field(&self.schema))),
            None,
        )?)
    }
}

/// Refuses a request for a type that is not the column's: `pyarrow.array` does not cast a column
/// that has another type than it requested.
fn check_requested(
    py: Python<'_>,
    requested: Option<&Bound<'_, PyCapsule>>,
    own: &DataType,
) -> PyResult<()> {
    let Some(requested) = requested else {
        return Ok(());
    };
    let requested = import(py, "requested_schema", || {
        PyDataType::from_arrow_pycapsule(requested)
    })?
    .into_inner();
    run_attached(py, || {
        if requested.equals_datatype(own) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::InvalidValue,
            format!(
                "{requested} is requested of a column of {own}; import the column without a \
                 type and cast it, as in pyarrow.array(column).cast(type)"
            ),
        ))
    })
}

fn struct_field(schema: &SchemaRef) -> FieldRef {
    Arc::new(
        Field::new("", DataType::Struct(schema.fields().clone()), false)
            .with_metadata(schema.metadata().clone()),
    )
}

/// Checks the number of rows of a batch.
pub fn batch_rows(py: Python<'_>, rows: i64) -> PyResult<usize> {
    run_attached(py, || match usize::try_from(rows) {
        Ok(rows) if rows > 0 => Ok(rows),
        _ => Err(Error::new(
            ErrorKind::InvalidValue,
            format!("batch_rows is {rows}; it must be at least 1"),
        )),
    })
}
