//! The key-value store.

use crate::arrow::column::{Column, check_entries};
use crate::arrow::export::{ArrowArray, ArrowReader, batch_rows};
use crate::stores::bytes_argument::{key_bytes, value_bytes};
use crate::stores::row_iterator::{RowChunk, RowIterator, RowScan};
use crate::stores::store_handle::StoreHandle;
use crate::view::InputOffsets;
use holdfast_core::column::{LastBatch, Places, key_value_batch, key_value_schema};
use holdfast_core::{KeyValueStore as Store, NO_TIMESTAMP, Result, Scan, Stamped, Step};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use smallvec::SmallVec;
use std::sync::Arc;

/// The size up to which the value of a `get` is copied to the stack before it is copied to Python.
const SHORT_VALUE: usize = 512;

/// A key-value store in one view.
#[pyclass(frozen, module = "holdfast._core")]
pub struct KeyValueStore {
    handle: StoreHandle<Store>,
}

impl KeyValueStore {
    /// Wraps a store.
    pub fn new(handle: StoreHandle<Store>) -> Self {
        Self { handle }
    }
}

fn to_bytes(py: Python<'_>, value: Option<Vec<u8>>) -> Option<Bound<'_, PyBytes>> {
    value.map(|value| PyBytes::new(py, &value))
}

#[pymethods]
impl KeyValueStore {
    #[pyo3(signature = (level, bound))]
    fn read_only(
        &self,
        py: Python<'_>,
        level: &str,
        bound: Option<InputOffsets>,
    ) -> PyResult<Self> {
        let handle = self.handle.read_only(py, Store::name, level, bound)?;
        Ok(Self { handle })
    }

    /// Returns the key's value, None if it has none.
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let key = key_bytes(key, self.handle.store().name())?;
        // Python's bytes cannot be made without the GIL.
        let mut value = SmallVec::<[u8; SHORT_VALUE]>::new();
        let found = self.handle.read(py, |store, tx| {
            store.get(tx, key, |found| {
                found.map(|found| value.extend_from_slice(found))
            })
        })?;
        Ok(found.map(|()| PyBytes::new(py, &value)))
    }

    /// Sets the key's value; None deletes the key.
    fn put(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let name = self.handle.store().name();
        let (key, value) = (key_bytes(key, name)?, value_bytes(value, name)?);
        self.handle.write(py, |store, tx| store.put(tx, key, value))
    }

    #[pyo3(signature = (key, value))]
    fn put_if_absent<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let found = self
            .handle
            .write(py, |store, tx| store.put_if_absent(tx, key, value))?;
        Ok(to_bytes(py, found))
    }

    fn put_all(
        &self,
        py: Python<'_>,
        entries: Vec<(PyBackedBytes, Option<PyBackedBytes>)>,
    ) -> PyResult<()> {
        self.handle.run(py, |store, view| {
            let rows = entries
                .iter()
                .map(|(key, value)| (&**key, value.as_deref()));
            check_entries(rows.clone())?;
            view.write_batch(|tx| store.put_all(tx, rows))
        })
    }

    fn delete<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let found = self.handle.write(py, |store, tx| store.delete(tx, key))?;
        Ok(to_bytes(py, found))
    }

    #[pyo3(signature = (start, end, reverse))]
    fn range(
        &self,
        py: Python<'_>,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
        reverse: bool,
    ) -> PyResult<KeyValueIterator> {
        let scan = self
            .handle
            .read(py, |store, tx| store.range(tx, start, end, reverse))?;
        Ok(KeyValueIterator {
            rows: self.handle.rows(scan),
        })
    }

    #[pyo3(signature = (prefix, end))]
    fn prefix_scan(
        &self,
        py: Python<'_>,
        prefix: &[u8],
        end: Option<&[u8]>,
    ) -> PyResult<KeyValueIterator> {
        let scan = self
            .handle
            .read(py, |store, tx| store.prefix_scan(tx, prefix, end, false))?;
        Ok(KeyValueIterator {
            rows: self.handle.rows(scan),
        })
    }

    fn approximate_num_entries(&self, py: Python<'_>) -> PyResult<u64> {
        self.handle
            .read(py, |store, tx| store.approximate_num_entries(tx))
    }

    fn put_batch(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let [keys, values] = Column::import_all([(keys, "keys"), (values, "values")])?;
        self.handle.run(py, |store, view| {
            keys.same_rows([&values])?;
            let (keys, values) = (keys.bytes()?, values.bytes()?);
            let rows = keys.non_null()?.zip(values.iter());
            view.write_batch(|tx| store.put_batch(tx, rows))
        })
    }

    fn delete_batch(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<()> {
        let keys = Column::import(keys, "keys")?;
        self.handle.run(py, |store, view| {
            let keys = keys.bytes()?;
            let keys = keys.non_null()?;
            view.write_batch(|tx| store.delete_batch(tx, keys))
        })
    }

    #[pyo3(signature = (start, end))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> PyResult<()> {
        self.handle
            .write_batch(py, |store, tx| store.delete_range(tx, start, end))
    }

    fn get_batch(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<ArrowArray> {
        let keys = Column::import(keys, "keys")?;
        let values = self.handle.run(py, |store, view| {
            let keys = keys.bytes()?;
            let keys = keys.keys()?;
            let mut places = Places::new(keys.len());
            view.read_batch(|tx| {
                store.get_batch(tx, &keys, |row, value| {
                    let found = value.map(|value| Stamped {
                        value,
                        timestamp: NO_TIMESTAMP,
                    });
                    places.put(row, found);
                })
            })?;
            places.finish()
        })?;
        Ok(ArrowArray::new(values))
    }

    #[pyo3(signature = (start, end, reverse, batch_rows))]
    fn range_batches(
        &self,
        py: Python<'_>,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
        reverse: bool,
        batch_rows: i64,
    ) -> PyResult<ArrowReader> {
        let rows = self::batch_rows(py, batch_rows)?;
        let mut scan = self
            .handle
            .read(py, |store, tx| store.range(tx, start, end, reverse))?;
        let (schema, mut last) = (key_value_schema(), LastBatch::default());
        Ok(ArrowReader::from_fn(Arc::clone(&schema), move || {
            key_value_batch(&mut scan, rows, &schema, &mut last)
        }))
    }
}

impl RowScan for Scan {
    type Rest = ();

    fn read(&mut self, chunk: &mut RowChunk<()>) -> Result<()> {
        self.for_each(&mut |key, value| {
            if chunk.push(key, value, ()) {
                Step::Next
            } else {
                Step::Pause
            }
        })?;
        Ok(())
    }
}

/// Rows of key and value.
#[pyclass(frozen, module = "holdfast._core")]
pub struct KeyValueIterator {
    rows: RowIterator<Scan>,
}

#[pymethods]
impl KeyValueIterator {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Option<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>> {
        Ok(self.rows.next(py)?.map(|(key, value, ())| (key, value)))
    }

    fn peek_next_key<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.rows.peek_next_key(py)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.rows.close(py)
    }
}
