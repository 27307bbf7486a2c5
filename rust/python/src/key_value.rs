//! The key-value store.

use crate::columns::{Column, check_entries};
use crate::error::to_python;
use crate::export::{ArrowArray, ArrowReader};
use crate::iterator::{Chunk, Rows};
use crate::run::run;
use crate::view::{Offsets, OpenDatabase, View};
use holdfast_core::column::{Places, key_value_batch, key_value_schema};
use holdfast_core::{
    KeyValueStore as Store, NO_TIMESTAMP, Result, Scan, Stamped, Step, Transaction,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Arc;

/// A key-value store as one view sees it.
#[pyclass(frozen, module = "holdfast._core")]
pub struct KeyValueStore {
    store: Store,
    view: View,
}

impl KeyValueStore {
    /// For Python.
    pub fn new(store: Store, view: View) -> Self {
        Self { store, view }
    }

    fn scan(
        &self,
        py: Python<'_>,
        open: impl FnOnce(&Store, &mut Transaction) -> Result<Scan> + Send,
    ) -> PyResult<Scan> {
        run(py, self.view.owner(), || {
            self.view.read(|tx| open(&self.store, tx))
        })
    }
}

/// The value of a key or nothing, as Python's.
fn bytes(py: Python<'_>, value: Option<Vec<u8>>) -> Option<Bound<'_, PyBytes>> {
    value.map(|value| PyBytes::new(py, &value))
}

#[pymethods]
impl KeyValueStore {
    #[pyo3(signature = (level, bound))]
    fn read_only(&self, py: Python<'_>, level: &str, bound: Option<Offsets>) -> PyResult<Self> {
        let view = self
            .view
            .reader(level, self.store.name(), bound)
            .map_err(|error| to_python(py, &error))?;
        Ok(Self {
            store: self.store.clone(),
            view,
        })
    }

    fn get<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let value = run(py, self.view.owner(), || {
            self.view
                .read(|tx| self.store.get(tx, key, |found| found.map(<[u8]>::to_vec)))
        })?;
        Ok(bytes(py, value))
    }

    #[pyo3(signature = (key, value))]
    fn put(&self, py: Python<'_>, key: &[u8], value: Option<&[u8]>) -> PyResult<()> {
        run(py, self.view.owner(), || {
            self.view.write(|tx| self.store.put(tx, key, value))
        })
    }

    #[pyo3(signature = (key, value))]
    fn put_if_absent<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let found = run(py, self.view.owner(), || {
            self.view
                .write(|tx| self.store.put_if_absent(tx, key, value))
        })?;
        Ok(bytes(py, found))
    }

    fn put_all(
        &self,
        py: Python<'_>,
        entries: Vec<(
            pyo3::pybacked::PyBackedBytes,
            Option<pyo3::pybacked::PyBackedBytes>,
        )>,
    ) -> PyResult<()> {
        run(py, self.view.owner(), || {
            let rows = entries
                .iter()
                .map(|(key, value)| (&**key, value.as_deref()));
            check_entries(rows.clone())?;
            self.view.write_batch(|tx| self.store.put_all(tx, rows))
        })
    }

    fn delete<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let found = run(py, self.view.owner(), || {
            self.view.write(|tx| self.store.delete(tx, key))
        })?;
        Ok(bytes(py, found))
    }

    #[pyo3(signature = (start, end, reverse))]
    fn range(
        &self,
        py: Python<'_>,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
        reverse: bool,
    ) -> PyResult<KeyValueIterator> {
        let scan = self.scan(py, |store, tx| store.range(tx, start, end, reverse))?;
        Ok(KeyValueIterator::new(self.view.db(), scan))
    }

    #[pyo3(signature = (prefix, end))]
    fn prefix_scan(
        &self,
        py: Python<'_>,
        prefix: &[u8],
        end: Option<&[u8]>,
    ) -> PyResult<KeyValueIterator> {
        let scan = self.scan(py, |store, tx| store.prefix_scan(tx, prefix, end, false))?;
        Ok(KeyValueIterator::new(self.view.db(), scan))
    }

    fn approximate_num_entries(&self, py: Python<'_>) -> PyResult<u64> {
        run(py, self.view.owner(), || {
            self.view.read(|tx| self.store.approximate_num_entries(tx))
        })
    }

    fn put_batch(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (keys, values) = (
            Column::import(keys, "keys")?,
            Column::import(values, "values")?,
        );
        run(py, self.view.owner(), || {
            keys.same_rows(&values)?;
            let (keys, values) = (keys.bytes()?, values.bytes()?);
            keys.check_keys()?;
            self.view.write_batch(|tx| {
                self.store
                    .put_batch(tx, keys.iter().flatten().zip(values.iter()))
            })
        })
    }

    fn delete_batch(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<()> {
        let keys = Column::import(keys, "keys")?;
        run(py, self.view.owner(), || {
            let keys = keys.bytes()?;
            keys.check_keys()?;
            self.view
                .write_batch(|tx| self.store.delete_batch(tx, keys.iter().flatten()))
        })
    }

    #[pyo3(signature = (start, end))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> PyResult<()> {
        run(py, self.view.owner(), || {
            self.view
                .write_batch(|tx| self.store.delete_range(tx, start, end))
        })
    }

    fn get_batch(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<ArrowArray> {
        let keys = Column::import(keys, "keys")?;
        let values = run(py, self.view.owner(), || {
            let keys = keys.bytes()?;
            let keys = keys.keys()?;
            self.view.read_batch(|tx| {
                let mut places = Places::new(keys.len());
                self.store.get_batch(tx, &keys, |row, value| {
                    places.put(
                        row,
                        value.map(|value| Stamped {
                            value,
                            timestamp: NO_TIMESTAMP,
                        }),
                    );
                })?;
                places.finish()
            })
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
        let rows = crate::export::batch_rows(py, batch_rows)?;
        let mut scan = self.scan(py, |store, tx| store.range(tx, start, end, reverse))?;
        let schema = key_value_schema();
        let made = Arc::clone(&schema);
        let batches =
            std::iter::from_fn(move || key_value_batch(&mut scan, rows, &made).transpose());
        Ok(ArrowReader::new(schema, Box::new(batches)))
    }
}

/// Rows of key and value.
#[pyclass(frozen, module = "holdfast._core")]
pub struct KeyValueIterator {
    rows: Rows<()>,
}

impl KeyValueIterator {
    fn new(db: Arc<OpenDatabase>, mut scan: Scan) -> Self {
        let source = move |chunk: &mut Chunk<()>| {
            scan.for_each(&mut |key, value| {
                if chunk.push(key, value, ()) {
                    Step::Next
                } else {
                    Step::Pause
                }
            })?;
            Ok(())
        };
        Self {
            rows: Rows::new(db, Box::new(source)),
        }
    }
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
