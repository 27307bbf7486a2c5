//! The timestamped key-value store.

use crate::columns::{Column, check_entries};
use crate::error::to_python;
use crate::export::{ArrowBatch, ArrowReader, batch_rows};
use crate::iterator::{Chunk, Rows};
use crate::run::run;
use crate::view::{Offsets, OpenDatabase, View};
use holdfast_core::column::{Places, stamped_batch, stamped_schema};
use holdfast_core::{
    Result, Stamped, StampedScan, Timestamp, TimestampedKeyValueStore as Store, Transaction,
};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use std::sync::Arc;

/// A value and its timestamp as Python sees them.
pub type Value<'py> = (Bound<'py, PyBytes>, i64);

/// A key, its value and its timestamp.
type KeyedValue<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, i64);

/// For Python.
pub fn value(py: Python<'_>, found: Option<(Vec<u8>, Timestamp)>) -> Option<Value<'_>> {
    found.map(|(value, timestamp)| (PyBytes::new(py, &value), timestamp.0))
}

/// A timestamped key-value store as one view sees it.
#[pyclass(frozen, module = "holdfast._core")]
pub struct TimestampedKeyValueStore {
    store: Store,
    view: View,
}

impl TimestampedKeyValueStore {
    /// For Python.
    pub fn new(store: Store, view: View) -> Self {
        Self { store, view }
    }

    fn scan(
        &self,
        py: Python<'_>,
        open: impl FnOnce(&Store, &mut Transaction) -> Result<StampedScan> + Send,
    ) -> PyResult<StampedScan> {
        run(py, self.view.owner(), || {
            self.view.read(|tx| open(&self.store, tx))
        })
    }
}

#[pymethods]
impl TimestampedKeyValueStore {
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

    fn get<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Value<'py>>> {
        let found = run(py, self.view.owner(), || {
            self.view.read(|tx| {
                self.store
                    .get(tx, key, |found| found.map(Stamped::to_owned))
            })
        })?;
        Ok(value(py, found))
    }

    #[pyo3(signature = (key, value, timestamp))]
    fn put(
        &self,
        py: Python<'_>,
        key: &[u8],
        value: Option<&[u8]>,
        timestamp: i64,
    ) -> PyResult<()> {
        run(py, self.view.owner(), || {
            self.view.write(|tx| {
                self.store.put(tx, key, value, Timestamp(timestamp))?;
                Ok(())
            })
        })
    }

    #[pyo3(signature = (key, new, timestamp))]
    fn put_if_absent<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        new: Option<&[u8]>,
        timestamp: i64,
    ) -> PyResult<Option<Value<'py>>> {
        let put =
            |tx: &mut Transaction| self.store.put_if_absent(tx, key, new, Timestamp(timestamp));
        Ok(value(
            py,
            run(py, self.view.owner(), || self.view.write(put))?,
        ))
    }

    fn put_all(
        &self,
        py: Python<'_>,
        entries: Vec<(PyBackedBytes, Option<PyBackedBytes>, i64)>,
    ) -> PyResult<()> {
        run(py, self.view.owner(), || {
            check_entries(
                entries
                    .iter()
                    .map(|(key, value, _)| (&**key, value.as_deref())),
            )?;
            let rows = entries
                .iter()
                .map(|(key, value, timestamp)| (&**key, value.as_deref(), Timestamp(*timestamp)));
            self.view.write_batch(|tx| self.store.put_all(tx, rows))
        })
    }

    fn delete<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Value<'py>>> {
        Ok(value(
            py,
            run(py, self.view.owner(), || {
                self.view.write(|tx| self.store.delete(tx, key))
            })?,
        ))
    }

    #[pyo3(signature = (start, end, reverse))]
    fn range(
        &self,
        py: Python<'_>,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
        reverse: bool,
    ) -> PyResult<TimestampedIterator> {
        let scan = self.scan(py, |store, tx| store.range(tx, start, end, reverse))?;
        Ok(TimestampedIterator::new(self.view.db(), scan))
    }

    #[pyo3(signature = (prefix, end))]
    fn prefix_scan(
        &self,
        py: Python<'_>,
        prefix: &[u8],
        end: Option<&[u8]>,
    ) -> PyResult<TimestampedIterator> {
        let scan = self.scan(py, |store, tx| store.prefix_scan(tx, prefix, end, false))?;
        Ok(TimestampedIterator::new(self.view.db(), scan))
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
        timestamps: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (keys, values) = (
            Column::import(keys, "keys")?,
            Column::import(values, "values")?,
        );
        let timestamps = Column::import(timestamps, "timestamps")?;
        run(py, self.view.owner(), || {
            keys.same_rows(&values)?;
            keys.same_rows(&timestamps)?;
            let (keys, values, times) = (keys.bytes()?, values.bytes()?, timestamps.times()?);
            keys.check_keys()?;
            let rows = keys
                .iter()
                .flatten()
                .zip(values.iter())
                .zip(times)
                .map(|((key, value), time)| (key, value, time));
            self.view.write_batch(|tx| self.store.put_batch(tx, rows))
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

    fn get_batch(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<ArrowBatch> {
        let keys = Column::import(keys, "keys")?;
        let batch = run(py, self.view.owner(), || {
            let keys = keys.bytes()?;
            let keys = keys.keys()?;
            let mut places = Places::new(keys.len());
            self.view.read_batch(|tx| {
                self.store
                    .get_batch(tx, &keys, |row, found| places.put(row, found))
            })?;
            places.finish_stamped()
        })?;
        Ok(ArrowBatch::new(batch))
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
        let mut scan = self.scan(py, |store, tx| store.range(tx, start, end, reverse))?;
        let schema = stamped_schema();
        let made = Arc::clone(&schema);
        let batches = std::iter::from_fn(move || stamped_batch(&mut scan, rows, &made).transpose());
        Ok(ArrowReader::new(schema, Box::new(batches)))
    }
}

/// Rows of key, value and timestamp.
#[pyclass(frozen, module = "holdfast._core")]
pub struct TimestampedIterator {
    rows: Rows<i64>,
}

impl TimestampedIterator {
    fn new(db: Arc<OpenDatabase>, mut scan: StampedScan) -> Self {
        let source = move |chunk: &mut Chunk<_>| {
            scan.for_each(&mut |key, found| chunk.push(key, found.value, found.timestamp.0))?;
            Ok(())
        };
        Self {
            rows: Rows::new(db, Box::new(source)),
        }
    }
}

#[pymethods]
impl TimestampedIterator {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<KeyedValue<'py>>> {
        self.rows.next(py)
    }

    fn peek_next_key<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.rows.peek_next_key(py)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.rows.close(py)
    }
}
