//! The timestamped key-value store.

use crate::arrow::column::{Column, check_entries};
use crate::arrow::export::{ArrowBatch, ArrowReader, batch_rows};
use crate::stores::row_iterator::{RowChunk, RowIterator, RowScan};
use crate::stores::store_handle::StoreHandle;
use crate::view::InputOffsets;
use holdfast_core::column::{LastBatch, Places, stamped_batch, stamped_schema};
use holdfast_core::{Result, Stamped, StampedScan, Timestamp, TimestampedKeyValueStore as Store};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use std::sync::Arc;

/// A timestamped key-value store in one view.
#[pyclass(frozen, module = "holdfast._core")]
pub struct TimestampedKeyValueStore {
    handle: StoreHandle<Store>,
}

impl TimestampedKeyValueStore {
    /// Wraps a store.
    pub fn new(handle: StoreHandle<Store>) -> Self {
        Self { handle }
    }
}

/// A value and its timestamp for Python.
pub type StampedValue<'py> = (Bound<'py, PyBytes>, i64);

/// A key, its value and its timestamp for Python.
type StampedRow<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, i64);

/// Converts a value and its timestamp for Python.
pub fn to_stamped_value(
    py: Python<'_>,
    found: Option<(Vec<u8>, Timestamp)>,
) -> Option<StampedValue<'_>> {
    found.map(|(value, timestamp)| (PyBytes::new(py, &value), timestamp.0))
}

#[pymethods]
impl TimestampedKeyValueStore {
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

    fn get<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<StampedValue<'py>>> {
        let found = self.handle.read(py, |store, tx| {
            store.get(tx, key, |found| found.map(Stamped::to_owned))
        })?;
        Ok(to_stamped_value(py, found))
    }

    #[pyo3(signature = (key, value, timestamp))]
    fn put(
        &self,
        py: Python<'_>,
        key: &[u8],
        value: Option<&[u8]>,
        timestamp: i64,
    ) -> PyResult<()> {
        self.handle.write(py, |store, tx| {
            store.put(tx, key, value, Timestamp(timestamp))?;
            Ok(())
        })
    }

    #[pyo3(signature = (key, new, timestamp))]
    fn put_if_absent<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        new: Option<&[u8]>,
        timestamp: i64,
    ) -> PyResult<Option<StampedValue<'py>>> {
        let found = self.handle.write(py, |store, tx| {
            store.put_if_absent(tx, key, new, Timestamp(timestamp))
        })?;
        Ok(to_stamped_value(py, found))
    }

    fn put_all(
        &self,
        py: Python<'_>,
        entries: Vec<(PyBackedBytes, Option<PyBackedBytes>, i64)>,
    ) -> PyResult<()> {
        self.handle.run(py, |store, view| {
            check_entries(
                entries
                    .iter()
                    .map(|(key, value, _)| (&**key, value.as_deref())),
            )?;
            let rows = entries
                .iter()
                .map(|(key, value, timestamp)| (&**key, value.as_deref(), Timestamp(*timestamp)));
            view.write_batch(|tx| store.put_all(tx, rows))
        })
    }

    fn delete<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<StampedValue<'py>>> {
        let found = self.handle.write(py, |store, tx| store.delete(tx, key))?;
        Ok(to_stamped_value(py, found))
    }

    #[pyo3(signature = (start, end, reverse))]
    fn range(
        &self,
        py: Python<'_>,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
        reverse: bool,
    ) -> PyResult<TimestampedIterator> {
        let scan = self
            .handle
            .read(py, |store, tx| store.range(tx, start, end, reverse))?;
        Ok(TimestampedIterator {
            rows: self.handle.rows(scan),
        })
    }

    #[pyo3(signature = (prefix, end))]
    fn prefix_scan(
        &self,
        py: Python<'_>,
        prefix: &[u8],
        end: Option<&[u8]>,
    ) -> PyResult<TimestampedIterator> {
        let scan = self
            .handle
            .read(py, |store, tx| store.prefix_scan(tx, prefix, end, false))?;
        Ok(TimestampedIterator {
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
        timestamps: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let [keys, values, timestamps] = Column::import_all([
            (keys, "keys"),
            (values, "values"),
            (timestamps, "timestamps"),
        ])?;
        self.handle.run(py, |store, view| {
            keys.same_rows([&values, &timestamps])?;
            let (keys, values, times) = (keys.bytes()?, values.bytes()?, timestamps.times()?);
            let rows = keys
                .non_null()?
                .zip(values.iter())
                .zip(times)
                .map(|((key, value), time)| (key, value, time));
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

    fn get_batch(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<ArrowBatch> {
        let keys = Column::import(keys, "keys")?;
        let batch = self.handle.run(py, |store, view| {
            let keys = keys.bytes()?;
            let keys = keys.keys()?;
            let mut places = Places::new(keys.len());
            view.read_batch(|tx| store.get_batch(tx, &keys, |row, found| places.put(row, found)))?;
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
        let mut scan = self
            .handle
            .read(py, |store, tx| store.range(tx, start, end, reverse))?;
        let (schema, mut last) = (stamped_schema(), LastBatch::default());
        Ok(ArrowReader::from_fn(Arc::clone(&schema), move || {
            stamped_batch(&mut scan, rows, &schema, &mut last)
        }))
    }
}

impl RowScan for StampedScan {
    type Rest = i64;

    fn read(&mut self, chunk: &mut RowChunk<i64>) -> Result<()> {
        self.for_each(&mut |key, found| chunk.push(key, found.value, found.timestamp.0))?;
        Ok(())
    }
}

/// Rows of key, value and timestamp.
#[pyclass(frozen, module = "holdfast._core")]
pub struct TimestampedIterator {
    rows: RowIterator<StampedScan>,
}

#[pymethods]
impl TimestampedIterator {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<StampedRow<'py>>> {
        self.rows.next(py)
    }

    fn peek_next_key<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.rows.peek_next_key(py)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.rows.close(py)
    }
}
