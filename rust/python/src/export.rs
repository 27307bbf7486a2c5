//! Arrow out: arrays, batches and streams with the PyCapsule interface, for pyarrow, polars, pandas
//! and all others alike.

use crate::error::to_python;
use crate::run::{Owner, catch, let_go, run};
use arrow_array::{Array, ArrayRef, RecordBatch, StructArray};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, SchemaRef};
use holdfast_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
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
    /// For Python.
    pub fn new(array: ArrayRef) -> Self {
        Self { array }
    }

    /// The column inside.
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
        Ok(to_array_pycapsules(
            py,
            self.field(),
            &self.array,
            requested_schema,
        )?)
    }
}

/// Columns of one length.
#[pyclass(frozen, module = "holdfast._core")]
pub struct ArrowBatch {
    batch: RecordBatch,
}

impl ArrowBatch {
    /// For Python.
    pub fn new(batch: RecordBatch) -> Self {
        Self { batch }
    }

    /// The columns inside.
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
        let array = StructArray::from(self.batch.clone());
        Ok(to_array_pycapsules(
            py,
            struct_field(self.batch.schema_ref()),
            &array,
            requested_schema,
        )?)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let array: ArrayRef = Arc::new(StructArray::from(self.batch.clone()));
        let one = ArrayIterator::new(
            std::iter::once(Ok(array)),
            struct_field(self.batch.schema_ref()),
        );
        Ok(to_stream_pycapsule(py, Box::new(one), requested_schema)?)
    }
}

/// Batches made as they are asked for.
pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// A stream of batches, read once: by `for`, or by whoever takes it through `__arrow_c_stream__`.
#[pyclass(frozen, module = "holdfast._core")]
pub struct ArrowReader {
    owner: Owner,
    schema: SchemaRef,
    batches: Mutex<Option<Batches>>,
}

impl ArrowReader {
    /// For Python.
    pub fn new(schema: SchemaRef, batches: Batches) -> Self {
        Self {
            owner: Owner::current(),
            schema,
            batches: Mutex::new(Some(batches)),
        }
    }

    /// The columns' names and types.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Hands the batches on.
    pub fn take(&self) -> Result<Batches> {
        self.batches.lock().take().ok_or_else(taken)
    }
}

impl Drop for ArrowReader {
    fn drop(&mut self) {
        // Its scan may be the last that has the files open.
        let batches = self.batches.get_mut().take();
        let_go(|| drop(batches));
    }
}

/// The next batch; what made them is let go at the end, and its snapshot with it, however long the
/// reader is kept.
fn next_batch(batches: &mut Batches) -> Option<Result<RecordBatch>> {
    let next = batches.next();
    if next.is_none() {
        *batches = Box::new(std::iter::empty());
    }
    next
}

fn taken() -> Error {
    Error::new(
        ErrorKind::InvalidState,
        "this reader was handed on through __arrow_c_stream__ before; ask the store for another",
    )
}

#[pymethods]
impl ArrowReader {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<ArrowBatch>> {
        let next = run(py, self.owner, || {
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
        let mut batches = self.take().map_err(|error| to_python(py, &error))?;
        let owner = self.owner;
        // The consumer calls this from C, where a panic must not arrive.
        let arrays = std::iter::from_fn(move || {
            let next = catch(|| {
                owner
                    .check()
                    .map_or_else(|error| Some(Err(error)), |()| next_batch(&mut batches))
            });
            let next =
                next.unwrap_or_else(|words| Some(Err(Error::new(ErrorKind::InvalidState, words))));
            next.map(|batch| match batch {
                Ok(batch) => Ok(Arc::new(StructArray::from(batch)) as ArrayRef),
                Err(error) => Err(ArrowError::ExternalError(Box::new(error))),
            })
        });
        Ok(to_stream_pycapsule(
            py,
            Box::new(ArrayIterator::new(arrays, struct_field(&self.schema))),
            requested_schema,
        )?)
    }
}

fn struct_field(schema: &SchemaRef) -> FieldRef {
    Arc::new(
        Field::new("", DataType::Struct(schema.fields().clone()), false)
            .with_metadata(schema.metadata().clone()),
    )
}

/// A batch's number of rows, checked.
pub fn batch_rows(py: Python<'_>, rows: i64) -> PyResult<usize> {
    match usize::try_from(rows) {
        Ok(rows) if rows > 0 => Ok(rows),
        _ => Err(to_python(
            py,
            &Error::new(
                ErrorKind::InvalidValue,
                format!("batch_rows is {rows}; it must be at least 1"),
            ),
        )),
    }
}
