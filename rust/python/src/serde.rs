//! Typed keys and values: columns before and after the stores, which speak bytes.

use crate::columns::Column;
use crate::error::to_python;
use crate::export::{ArrowArray, ArrowBatch, ArrowReader};
use crate::run::{Owner, run};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use holdfast_core::column::batch;
use holdfast_core::serde::{Item, Scalar, Serde as Engine, Side};
use holdfast_core::{Error, Result};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyString, PyTuple};
use pyo3_arrow::PySchema;
use std::sync::Arc;

/// How keys or values of one type become bytes.
#[pyclass(frozen, module = "holdfast._core")]
pub struct Serde {
    engine: Arc<Engine>,
    /// A struct's fields.
    names: Vec<Py<PyString>>,
}

impl Serde {
    /// The engine's.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }
}

/// Which of a store's serdes.
pub fn side(as_key: bool) -> Side {
    if as_key { Side::Key } else { Side::Value }
}

impl Serde {
    fn made(py: Python<'_>, engine: Result<Engine>) -> PyResult<Self> {
        let engine = engine.map_err(|error| to_python(py, &error))?;
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

    fn scalar<'a>(&self, value: &'a Bound<'_, PyAny>) -> PyResult<Scalar<'a>> {
        let wanted = match self.engine.data_type() {
            DataType::Boolean => {
                if let Ok(value) = value.cast::<PyBool>() {
                    return Ok(Scalar::Bool(value.is_true()));
                }
                "bool"
            }
            DataType::Int64 | DataType::Timestamp(..) => {
                if !value.is_instance_of::<PyBool>() && value.hasattr("__index__")? {
                    return value.extract().map(Scalar::Int);
                }
                "int"
            }
            DataType::Float64 => {
                let is_number = value.is_instance_of::<PyFloat>() || value.hasattr("__index__")?;
                if !value.is_instance_of::<PyBool>() && is_number {
                    let float = value.extract()?;
                    if !value.is_instance_of::<PyFloat>() {
                        check_whole(value, float)?;
                    }
                    return Ok(Scalar::Float(float));
                }
                "float"
            }
            _ => {
                if let Ok(value) = value.cast::<PyString>() {
                    return value.to_str().map(Scalar::Text);
                }
                "str"
            }
        };
        Err(PyTypeError::new_err(format!(
            "{:.80} is a {}; wanted: {wanted}",
            value.repr()?.to_str()?,
            value.get_type().name()?
        )))
    }
}

#[pymethods]
impl Serde {
    #[staticmethod]
    fn named(py: Python<'_>, name: &str) -> PyResult<Self> {
        Self::made(py, Engine::named(name))
    }

    #[staticmethod]
    fn of_struct(py: Python<'_>, schema: PySchema) -> PyResult<Self> {
        Self::made(py, Engine::of_struct(schema.into_inner().fields()))
    }

    fn check_key(&self, py: Python<'_>) -> PyResult<()> {
        self.engine
            .check_key()
            .map_err(|error| to_python(py, &error))
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
        let bytes = self
            .engine
            .encode_scalar(self.scalar(value)?, side(as_key))
            .map_err(|error| to_python(py, &error))?;
        Ok(PyBytes::new(py, &bytes))
    }

    fn deserialize<'py>(&self, py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        Ok(
            match self
                .engine
                .decode_scalar(data)
                .map_err(|error| to_python(py, &error))?
            {
                Scalar::Bool(value) => PyBool::new(py, value).to_owned().into_any(),
                Scalar::Int(value) => value.into_pyobject(py)?.into_any(),
                Scalar::Float(value) => PyFloat::new(py, value).into_any(),
                Scalar::Text(value) => PyString::new(py, value).into_any(),
            },
        )
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
        let bytes = run(py, Owner::current(), || {
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
        let keys = shown_keys(keys);
        let typed = run(py, Owner::current(), || {
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
        let bytes = self
            .engine
            .encode_row(column.chunks(), side(as_key))
            .map_err(|error| to_python(py, &error))?;
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
        let items: Option<Vec<Item<'_>>> = fields.iter().map(item).collect();
        let bytes = items.and_then(|items| self.engine.encode_items(&items, side(as_key)));
        Ok(bytes.map(|bytes| PyBytes::new(py, &bytes)))
    }

    fn deserialize_fields<'py>(
        &self,
        py: Python<'py>,
        data: &[u8],
        as_key: bool,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let Some(items) = self.engine.decode_items(data, side(as_key)) else {
            return Ok(None);
        };
        let field = |item: Item<'_>| {
            Ok(match item {
                Item::Null => py.None().into_bound(py),
                Item::Bool(value) => PyBool::new(py, value).to_owned().into_any(),
                Item::Int(value) => value.into_pyobject(py)?.into_any(),
                Item::Float(value) => PyFloat::new(py, value).into_any(),
                Item::Text(text) => PyString::new(py, &text).into_any(),
                Item::Binary(bytes) => PyBytes::new(py, &bytes).into_any(),
            })
        };
        PyTuple::new(
            py,
            items.into_iter().map(field).collect::<PyResult<Vec<_>>>()?,
        )
        .map(Some)
    }

    fn deserialize_row(&self, py: Python<'_>, data: &[u8], as_key: bool) -> PyResult<ArrowArray> {
        let row = self
            .engine
            .decode_row(data, side(as_key))
            .map_err(|error| to_python(py, &error))?;
        Ok(ArrowArray::new(row))
    }

    fn serialize_prefix<'py>(
        &self,
        py: Python<'py>,
        row: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let column = Column::import(row, "prefix")?;
        let bytes = self
            .engine
            .encode_prefix(column.chunks())
            .map_err(|error| to_python(py, &error))?;
        Ok(PyBytes::new(py, &bytes))
    }
}

/// Fails for an integer that came out of its float as another one, as a struct's fields refuse it.
fn check_whole(value: &Bound<'_, PyAny>, float: f64) -> PyResult<()> {
    let py = value.py();
    // numpy's integers compare with floats as floats do, Python's by all their digits.
    let exact = value.call_method0(intern!(py, "__index__"))?;
    if exact.eq(float)? {
        return Ok(());
    }
    Err(PyOverflowError::new_err(format!(
        "the integer has no float of its own; the nearest is {}",
        PyFloat::new(py, float).repr()?
    )))
}

/// A field as it is; nothing for what only pyarrow knows how to convert.
fn item<'a>(value: &'a Bound<'_, PyAny>) -> Option<Item<'a>> {
    if value.is_none() {
        Some(Item::Null)
    } else if let Ok(text) = value.cast_exact::<PyString>() {
        text.to_str().ok().map(|text| Item::Text(text.into()))
    } else if let Ok(float) = value.cast_exact::<PyFloat>() {
        Some(Item::Float(float.value()))
    } else if let Ok(int) = value.cast_exact::<PyInt>() {
        int.extract().ok().map(Item::Int)
    } else if let Ok(bool) = value.cast_exact::<PyBool>() {
        Some(Item::Bool(bool.is_true()))
    } else {
        value
            .cast_exact::<PyBytes>()
            .ok()
            .map(|bytes| Item::Binary(bytes.as_bytes().into()))
    }
}

/// Keys that errors can show: those that this binding has encoded.
pub fn shown_keys(keys: Option<&Bound<'_, PyAny>>) -> Option<ArrayRef> {
    keys?
        .cast::<ArrowArray>()
        .ok()
        .map(|keys| Arc::clone(keys.get().array()))
}

/// The serdes of a batch's columns `key` and `value`; a column without one stays bytes.
pub struct Columns {
    key: Option<Arc<Engine>>,
    value: Option<Arc<Engine>>,
    store: String,
}

impl Columns {
    /// Errors name the store.
    pub fn new(key: Option<&Serde>, value: Option<&Serde>, store: String) -> Self {
        let engine = |serde: &Serde| Arc::clone(&serde.engine);
        Self {
            key: key.map(engine),
            value: value.map(engine),
            store,
        }
    }

    fn serde(&self, name: &str) -> Option<(&Engine, Side)> {
        match name {
            "key" => self.key.as_deref().map(|serde| (serde, Side::Key)),
            "value" => self.value.as_deref().map(|serde| (serde, Side::Value)),
            _ => None,
        }
    }

    fn schema(&self, schema: &SchemaRef) -> SchemaRef {
        let typed = |field: &FieldRef| match self.serde(field.name()) {
            Some((serde, _)) => Arc::new(Field::new(
                field.name(),
                serde.data_type().clone(),
                field.is_nullable(),
            )),
            None => Arc::clone(field),
        };
        Arc::new(Schema::new(
            schema.fields().iter().map(typed).collect::<Vec<_>>(),
        ))
    }

    /// A batch with typed columns; errors show the key of a row of `keys`.
    pub fn typed(&self, stored: &RecordBatch, keys: Option<&ArrayRef>) -> Result<RecordBatch> {
        self.decode(stored, &self.schema(stored.schema_ref()), keys)
    }

    fn decode(
        &self,
        stored: &RecordBatch,
        schema: &SchemaRef,
        keys: Option<&ArrayRef>,
    ) -> Result<RecordBatch> {
        let keys = keys.or_else(|| stored.column_by_name("key"));
        let column = |(field, column): (&FieldRef, &ArrayRef)| match self.serde(field.name()) {
            Some((serde, side)) => {
                serde.decode(std::slice::from_ref(column), side, field.name(), keys)
            }
            None => Ok(Arc::clone(column)),
        };
        let columns = stored
            .schema_ref()
            .fields()
            .iter()
            .zip(stored.columns())
            .map(column)
            .collect::<Result<_>>();
        batch(
            Arc::clone(schema),
            columns.map_err(|error| error.store(&self.store))?,
        )
    }
}

/// A batch whose columns `key` and `value` are typed.
#[pyfunction]
#[pyo3(signature = (stored, key, value, store, keys=None))]
pub fn decode_batch(
    py: Python<'_>,
    stored: &ArrowBatch,
    key: Option<PyRef<'_, Serde>>,
    value: Option<PyRef<'_, Serde>>,
    store: String,
    keys: Option<&Bound<'_, PyAny>>,
) -> PyResult<ArrowBatch> {
    let columns = Columns::new(key.as_deref(), value.as_deref(), store);
    let keys = shown_keys(keys);
    run(py, Owner::current(), || {
        columns.typed(stored.batch(), keys.as_ref())
    })
    .map(ArrowBatch::new)
}

/// A reader whose batches' columns `key` and `value` are typed; `stored` is handed on to it.
#[pyfunction]
pub fn decode_reader(
    py: Python<'_>,
    stored: &ArrowReader,
    key: Option<PyRef<'_, Serde>>,
    value: Option<PyRef<'_, Serde>>,
    store: String,
) -> PyResult<ArrowReader> {
    let columns = Columns::new(key.as_deref(), value.as_deref(), store);
    let schema = columns.schema(stored.schema());
    let batches = stored.take().map_err(|error| to_python(py, &error))?;
    let made = Arc::clone(&schema);
    let typed =
        batches.map(move |stored| stored.and_then(|stored| columns.decode(&stored, &made, None)));
    Ok(ArrowReader::new(schema, Box::new(typed)))
}
