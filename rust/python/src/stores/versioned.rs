//! The versioned store.

use crate::arrow::column::Column;
use crate::arrow::export::{ArrowBatch, ArrowReader, batch_rows, encoded_keys};
use crate::serde::Serde;
use crate::serde::batch::BatchSerdes;
use crate::stores::put_columns::PutColumns;
use crate::stores::row_iterator::{RowChunk, RowIterator, RowScan};
use crate::stores::store_handle::StoreHandle;
use crate::view::InputOffsets;
use arrow_array::builder::BooleanBuilder;
use arrow_schema::{DataType, Field};
use holdfast_core::column::{LastBatch, VersionColumns, version_batch, version_schema};
use holdfast_core::{
    Applied, Op, Result, Timestamp, Transaction, Version, VersionRow, VersionScan,
    VersionedStore as Store,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Arc;

/// A version for Python: value, begin, end.
type PyVersion<'py> = (Bound<'py, PyBytes>, i64, Option<i64>);

/// A version that is copied out of the engine's buffers.
type OwnedVersion = (Vec<u8>, i64, Option<i64>);

fn to_owned(version: Version<'_>) -> OwnedVersion {
    (
        version.value.to_vec(),
        version.timestamp.0,
        version.valid_to.map(|time| time.0),
    )
}

fn to_py_version(py: Python<'_>, version: Option<OwnedVersion>) -> Option<PyVersion<'_>> {
    version.map(|(value, begin, end)| (PyBytes::new(py, &value), begin, end))
}

/// A versioned store in one view.
#[pyclass(frozen, module = "holdfast._core")]
pub struct VersionedKeyValueStore {
    handle: StoreHandle<Store>,
}

impl VersionedKeyValueStore {
    /// Wraps a store.
    pub fn new(handle: StoreHandle<Store>) -> Self {
        Self { handle }
    }

    fn iterate(
        &self,
        py: Python<'_>,
        open: impl FnOnce(&Store, &mut Transaction) -> Result<VersionScan> + Send,
    ) -> PyResult<VersionIterator> {
        let scan = self.handle.read_batch(py, open)?;
        Ok(VersionIterator {
            rows: self.handle.rows(scan),
        })
    }

    fn batches(
        &self,
        py: Python<'_>,
        batch_rows: i64,
        open: impl FnOnce(&Store, &mut Transaction) -> Result<VersionScan> + Send,
    ) -> PyResult<ArrowReader> {
        let rows = self::batch_rows(py, batch_rows)?;
        let mut scan = self.handle.read_batch(py, open)?;
        let (schema, mut last) = (version_schema(true), LastBatch::default());
        Ok(ArrowReader::from_fn(Arc::clone(&schema), move || {
            version_batch(&mut scan, rows, &schema, &mut last)
        }))
    }
}

#[pymethods]
impl VersionedKeyValueStore {
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

    fn stream_time(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        self.handle
            .read(py, |store, tx| Ok(store.stream_time(tx).map(|time| time.0)))
    }

    #[pyo3(signature = (key, value, timestamp))]
    fn put(
        &self,
        py: Python<'_>,
        key: &[u8],
        value: Option<&[u8]>,
        timestamp: i64,
    ) -> PyResult<(bool, Option<i64>)> {
        let result = self.handle.write(py, |store, tx| {
            store.put(tx, key, value, Timestamp(timestamp))
        })?;
        Ok((result.accepted, result.valid_to.map(|time| time.0)))
    }

    fn delete<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        timestamp: i64,
    ) -> PyResult<Option<PyVersion<'py>>> {
        let version = self.handle.write(py, |store, tx| {
            store.delete(tx, key, Timestamp(timestamp), |found| found.map(to_owned))
        })?;
        Ok(to_py_version(py, version))
    }

    #[pyo3(signature = (key, as_of))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        as_of: Option<i64>,
    ) -> PyResult<Option<PyVersion<'py>>> {
        let version = self.handle.read(py, |store, tx| match as_of {
            Some(at) => store.get_as_of(tx, key, Timestamp(at), |found| found.map(to_owned)),
            None => store.get(tx, key, |found| found.map(to_owned)),
        })?;
        Ok(to_py_version(py, version))
    }

    fn versions(
        &self,
        py: Python<'_>,
        key: &[u8],
        start: i64,
        end: i64,
        descending: bool,
    ) -> PyResult<VersionIterator> {
        self.iterate(py, |store, tx| {
            store.versions(tx, key, Timestamp(start), Timestamp(end), !descending)
        })
    }

    #[pyo3(signature = (key_from, key_to, start, end))]
    fn versions_range(
        &self,
        py: Python<'_>,
        key_from: Option<&[u8]>,
        key_to: Option<&[u8]>,
        start: i64,
        end: i64,
    ) -> PyResult<VersionIterator> {
        self.iterate(py, |store, tx| {
            store.versions_range(tx, key_from, key_to, Timestamp(start), Timestamp(end))
        })
    }

    #[pyo3(signature = (as_of))]
    fn scan(&self, py: Python<'_>, as_of: Option<i64>) -> PyResult<VersionIterator> {
        self.iterate(py, |store, tx| store.scan(tx, as_of.map(Timestamp)))
    }

    fn put_batch(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        timestamps: &Bound<'_, PyAny>,
    ) -> PyResult<ArrowBatch> {
        let [keys, values, timestamps] = Column::import_all([
            (keys, "keys"),
            (values, "values"),
            (timestamps, "timestamps"),
        ])?;
        let batch = self.handle.run(py, |store, view| {
            keys.same_rows([&values, &timestamps])?;
            let (key_bytes, value_bytes) = (keys.bytes()?, values.bytes()?);
            let (keys, values, times) =
                (key_bytes.keys()?, value_bytes.slices(), timestamps.times()?);
            let rows: Vec<VersionRow<'_>> = (keys.iter().zip(&values).zip(&times))
                .map(|((key, value), timestamp)| VersionRow {
                    key,
                    value: *value,
                    timestamp: *timestamp,
                })
                .collect();
            let mut results = PutColumns::with_capacity(rows.len());
            view.write_batch(|tx| {
                store.put_batch(tx, &rows, &mut |result| results.append(result))
            })?;
            results.finish()
        })?;
        Ok(ArrowBatch::new(batch))
    }

    #[pyo3(signature = (keys, as_of))]
    fn get_batch(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        as_of: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<ArrowBatch> {
        let keys = Column::import(keys, "keys")?;
        let as_of = Column::import_optional(as_of, "as_of")?;
        let batch = self.handle.run(py, |store, view| {
            keys.same_rows(&as_of)?;
            let key_bytes = keys.bytes()?;
            let keys = key_bytes.keys()?;
            let times = as_of.as_ref().map(Column::times).transpose()?;
            let mut columns = VersionColumns::without_keys(keys.len());
            view.read_batch(|tx| {
                store.get_batch(tx, &keys, times.as_deref(), &mut |_, found| {
                    columns.append(None, found)
                })
            })?;
            columns.finish(&version_schema(false))
        })?;
        Ok(ArrowBatch::new(batch))
    }

    #[pyo3(signature = (is_put, keys, values, timestamps, value_serde=None))]
    fn apply_batch(
        &self,
        py: Python<'_>,
        is_put: &Bound<'_, PyAny>,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        timestamps: &Bound<'_, PyAny>,
        value_serde: Option<PyRef<'_, Serde>>,
    ) -> PyResult<ArrowBatch> {
        let store_name = self.handle.store().name().to_owned();
        let serdes = BatchSerdes::new(None, value_serde.as_deref(), store_name);
        let encoded_keys = encoded_keys(Some(keys));
        let [is_put, keys, values, timestamps] = Column::import_all([
            (is_put, "is_put"),
            (keys, "keys"),
            (values, "values"),
            (timestamps, "timestamps"),
        ])?;
        let batch = self.handle.run(py, |store, view| {
            keys.same_rows([&is_put, &values, &timestamps])?;
            let (key_bytes, value_bytes) = (keys.bytes()?, values.bytes()?);
            let (flags, keys, values, times) = (
                is_put.flags()?,
                key_bytes.keys()?,
                value_bytes.slices(),
                timestamps.times()?,
            );
            let ops: Vec<Op<'_>> = (0..keys.len())
                .map(|n| match flags[n] {
                    true => Op::Put {
                        key: keys[n],
                        value: values[n],
                        timestamp: times[n],
                    },
                    false => Op::Get {
                        key: keys[n],
                        as_of: times[n],
                    },
                })
                .collect();
            let mut accepted = BooleanBuilder::with_capacity(ops.len());
            let mut columns = VersionColumns::without_keys(ops.len());
            view.write_batch(|tx| {
                store.apply_batch(tx, &ops, true, &mut |_, applied| match applied {
                    Applied::Put(result) => {
                        accepted.append_value(result.accepted);
                        columns.append_end(result.valid_to);
                    }
                    Applied::Get(found) => {
                        accepted.append_null();
                        columns.append(None, found);
                    }
                    Applied::Expired => {
                        accepted.append_null();
                        columns.append(None, None);
                    }
                })?;
                // The result is built inside the write: if building it fails, the puts must not be
                // committed.
                let accepted = Arc::new(accepted.finish());
                let applied = columns
                    .finish_behind(Field::new("accepted", DataType::Boolean, true), accepted)?;
                serdes.decode(&applied, encoded_keys.as_ref())
            })
        })?;
        Ok(ArrowBatch::new(batch))
    }

    #[pyo3(signature = (key_from, key_to, start, end, batch_rows))]
    fn versions_batches(
        &self,
        py: Python<'_>,
        key_from: Option<&[u8]>,
        key_to: Option<&[u8]>,
        start: i64,
        end: i64,
        batch_rows: i64,
    ) -> PyResult<ArrowReader> {
        self.batches(py, batch_rows, |store, tx| {
            store.versions_range(tx, key_from, key_to, Timestamp(start), Timestamp(end))
        })
    }

    #[pyo3(signature = (as_of, batch_rows))]
    fn scan_batches(
        &self,
        py: Python<'_>,
        as_of: Option<i64>,
        batch_rows: i64,
    ) -> PyResult<ArrowReader> {
        self.batches(py, batch_rows, |store, tx| {
            store.scan(tx, as_of.map(Timestamp))
        })
    }
}

impl RowScan for VersionScan {
    /// Begin and end.
    type Rest = (i64, Option<i64>);

    fn read(&mut self, chunk: &mut RowChunk<Self::Rest>) -> Result<()> {
        self.for_each(&mut |key, version| {
            chunk.push(
                key,
                version.value,
                (version.timestamp.0, version.valid_to.map(|time| time.0)),
            )
        })?;
        Ok(())
    }
}

/// Rows of key, value, begin and end.
#[pyclass(frozen, module = "holdfast._core")]
pub struct VersionIterator {
    rows: RowIterator<VersionScan>,
}

/// A key and a version for Python: key, value, begin, end.
type PyVersionRow<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, i64, Option<i64>);

#[pymethods]
impl VersionIterator {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<PyVersionRow<'py>>> {
        Ok(self
            .rows
            .next(py)?
            .map(|(key, value, (begin, end))| (key, value, begin, end)))
    }

    fn peek_next_key<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.rows.peek_next_key(py)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.rows.close(py)
    }
}
