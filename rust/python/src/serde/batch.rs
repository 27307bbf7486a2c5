//! Typed columns of a store's batches.

use crate::arrow::export::{ArrowBatch, ArrowReader, encoded_keys};
use crate::run::run;
use crate::serde::Serde;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Field, FieldRef, Schema, SchemaRef};
use holdfast_core::column::batch;
use holdfast_core::serde::{Serde as Engine, SerdeSide};
use holdfast_core::{Process, Result};
use pyo3::prelude::*;
use std::sync::Arc;

/// The serdes of a batch's columns `key` and `value`; a column without a serde stays bytes.
pub struct BatchSerdes {
    key: Option<Arc<Engine>>,
    value: Option<Arc<Engine>>,
    store: String,
}

impl BatchSerdes {
    /// Returns the serdes of a store; errors name the store.
    pub fn new(key: Option<&Serde>, value: Option<&Serde>, store: String) -> Self {
        let engine = |serde: &Serde| Arc::clone(serde.engine());
        Self {
            key: key.map(engine),
            value: value.map(engine),
            store,
        }
    }

    fn serde(&self, column: &str) -> Option<(&Engine, SerdeSide)> {
        match column {
            "key" => self.key.as_deref().map(|serde| (serde, SerdeSide::Key)),
            "value" => self.value.as_deref().map(|serde| (serde, SerdeSide::Value)),
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

    /// Decodes a batch. Errors show the key of the row, from `keys` or from the batch.
    pub fn decode(&self, stored: &RecordBatch, keys: Option<&ArrayRef>) -> Result<RecordBatch> {
        self.decode_as(stored, &self.schema(stored.schema_ref()), keys)
    }

    fn decode_as(
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

/// Decodes the columns `key` and `value` of a batch.
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
    let serdes = BatchSerdes::new(key.as_deref(), value.as_deref(), store);
    let keys = encoded_keys(keys);
    run(py, Process::current(), || {
        serdes.decode(stored.batch(), keys.as_ref())
    })
    .map(ArrowBatch::new)
}

/// Decodes the columns `key` and `value` of a reader's batches, and takes the batches out of
/// `stored`.
#[pyfunction]
pub fn decode_reader(
    py: Python<'_>,
    stored: &ArrowReader,
    key: Option<PyRef<'_, Serde>>,
    value: Option<PyRef<'_, Serde>>,
    store: String,
) -> PyResult<ArrowReader> {
    let serdes = BatchSerdes::new(key.as_deref(), value.as_deref(), store);
    let schema = serdes.schema(stored.schema());
    let mut batches = stored.take(py)?;
    Ok(ArrowReader::from_fn(Arc::clone(&schema), move || {
        let Some(stored) = batches.next().transpose()? else {
            return Ok(None);
        };
        serdes.decode_as(&stored, &schema, None).map(Some)
    }))
}
