//! Typed keys and values: a serde encodes them as the bytes that stores take, and decodes them.
//!
//! `python_value.rs` one value · `batch.rs` the typed columns of a store's batches.

pub mod batch;
mod python_value;

use crate::arrow::column::Column;
use crate::arrow::export::{ArrowArray, encoded_keys};
use crate::run::{run, run_attached};
use arrow_schema::DataType;
use holdfast_core::serde::{FieldValue, Serde as Engine, SerdeSide};
use holdfast_core::{Error, Process, Result};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};
use pyo3_arrow::PySchema;
use python_value::{field_from_python, field_to_python, scalar_from_python, scalar_to_python};
use std::sync::Arc;

/// Encodes keys or values of one type as bytes, and decodes them.
#[pyclass(frozen, module = "holdfast._core")]
pub struct Serde {
    engine: Arc<Engine>,
    /// The names of a struct's fields.
    names: Vec<Py<PyString>>,
}

impl Serde {
    /// Returns the engine's serde.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    fn make(py: Python<'_>, engine: impl FnOnce() -> Result<Engine>) -> PyResult<Self> {
        let engine = run_attached(py, engine)?;
        let names = match engine.data_type() {
            DataType::Struct(fields) => fields
                .iter()
                .map(|field| PyString::intern(py, field.name()).unbind())
                .collect(),
            _ => Vec::new(),
        };
        Ok(Self {
            engine: Arc::new(engine),
            names,
        })
    }
}

/// Returns the side of a store that a serde is for.
pub fn side(as_key: bool) -> SerdeSide {
    if as_key {
        SerdeSide::Key
    } else {
        SerdeSide::Value
    }
}

#[pymethods]
impl Serde {
    #[staticmethod]
    fn named(py: Python<'_>, name: &str) -> PyResult<Self> {
        Self::make(py, || Engine::named(name))
    }

    #[staticmethod]
    fn of_struct(py: Python<'_>, schema: PySchema) -> PyResult<Self> {
        Self::make(py, || Engine::of_struct(schema.into_inner().fields()))
    }

    fn check_key(&self, py: Python<'_>) -> PyResult<()> {
        run_attached(py, || self.engine.check_key())
    }

    fn descriptor<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.engine.descriptor())
    }

    fn serialize<'py>(
        &self,
        py: Python<'py>,
        value: &Bound<'py, PyAny>,
        as_key: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let scalar = scalar_from_python(value, self.engine.data_type())?;
        let bytes = run_attached(py, || self.engine.encode_scalar(scalar, side(as_key)))?;
        Ok(PyBytes::new(py, &bytes))
    }

    fn deserialize<'py>(&self, py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        scalar_to_python(py, run_attached(py, || self.engine.decode_scalar(data))?)
    }

    #[pyo3(signature = (column, as_key, store=None))]
    fn encode(
        &self,
        py: Python<'_>,
        column: &Bound<'_, PyAny>,
        as_key: bool,
        store: Option<&str>,
    ) -> PyResult<ArrowArray> {
        let what = if as_key { "keys" } else { "values" };
        let column = Column::import(column, what)?;
        let bytes = run(py, Process::current(), || {
            self.engine
                .encode(column.chunks(), side(as_key), what)
                .map_err(|error| store.into_iter().fold(error, Error::store))
        })?;
        Ok(ArrowArray::new(bytes))
    }

    #[pyo3(signature = (column, as_key, store=None, keys=None))]
    fn decode(
        &self,
        py: Python<'_>,
        column: &Bound<'_, PyAny>,
        as_key: bool,
        store: Option<&str>,
        keys: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<ArrowArray> {
        let what = if as_key { "keys" } else { "values" };
        let column = Column::import(column, what)?;
        let keys = encoded_keys(keys);
        let typed = run(py, Process::current(), || {
            let typed = self
                .engine
                .decode(column.chunks(), side(as_key), what, keys.as_ref());
            typed.map_err(|error| store.into_iter().fold(error, Error::store))
        })?;
        Ok(ArrowArray::new(typed))
    }

    fn serialize_row<'py>(
        &self,
        py: Python<'py>,
        row: &Bound<'py, PyAny>,
        as_key: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let column = Column::import(row, "row")?;
        let bytes = run_attached(py, || self.engine.encode_row(column.chunks(), side(as_key)))?;
        Ok(PyBytes::new(py, &bytes))
    }

    fn serialize_fields<'py>(
        &self,
        value: &Bound<'py, PyAny>,
        as_key: bool,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let py = value.py();
        let fields: Vec<Bound<'py, PyAny>> = if let Ok(tuple) = value.cast::<PyTuple>() {
            tuple.iter().collect()
        } else if let Ok(dict) = value.cast_exact::<PyDict>()
            && dict.len() == self.names.len()
        {
            let fields: Option<_> = self
                .names
                .iter()
                .map(|name| dict.get_item(name).transpose())
                .collect::<Option<PyResult<_>>>()
                .transpose()?;
            let Some(fields) = fields else {
                return Ok(None);
            };
            fields
        } else {
            return Ok(None);
        };
        let values: Option<Vec<FieldValue<'_>>> = fields.iter().map(field_from_python).collect();
        let Some(values) = values else {
            return Ok(None);
        };
        let bytes = run_attached(py, || Ok(self.engine.encode_fields(&values, side(as_key))))?;
        Ok(bytes.map(|bytes| PyBytes::new(py, &bytes)))
    }

    fn deserialize_fields<'py>(
        &self,
        py: Python<'py>,
        data: &[u8],
        as_key: bool,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let values = run_attached(py, || Ok(self.engine.decode_fields(data, side(as_key))))?;
        let Some(values) = values else {
            return Ok(None);
        };
        let values: Vec<_> = values
            .into_iter()
            .map(|value| field_to_python(py, value))
            .collect::<PyResult<_>>()?;
        PyTuple::new(py, values).map(Some)
    }

    fn deserialize_row(&self, py: Python<'_>, data: &[u8], as_key: bool) -> PyResult<ArrowArray> {
        let row = run_attached(py, || self.engine.decode_row(data, side(as_key)))?;
        Ok(ArrowArray::new(row))
    }

    fn serialize_prefix<'py>(
        &self,
        py: Python<'py>,
        row: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let column = Column::import(row, "prefix")?;
        let bytes = run_attached(py, || self.engine.encode_prefix(column.chunks()))?;
        Ok(PyBytes::new(py, &bytes))
    }
}
