//! The versioned store.

use crate::columns::Column;
use crate::error::to_python;
use crate::export::{ArrowBatch, ArrowReader, batch_rows};
use crate::iterator::{Chunk, Rows};
use crate::run::run;
use crate::serde::{Columns, Serde, shown_keys};
use crate::view::{Offsets, OpenDatabase, View};
use arrow_array::builder::{BooleanBuilder, Int64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use holdfast_core::column::{VersionColumns, batch, version_batch, version_schema};
use holdfast_core::{
    Applied, Op, PutResult, Result, Timestamp, Transaction, Version, VersionRow, VersionScan,
    VersionedStore as Store,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Arc;

/// A version as Python sees it: value, begin, end.
type Record<'py> = (Bound<'py, PyBytes>, i64, Option<i64>);

/// A version, away from the engine's buffers.
type Owned = (Vec<u8>, i64, Option<i64>);

fn owned(version: Version<'_>) -> Owned {
    (
        version.value.to_vec(),
        version.timestamp.0,
        version.valid_to.map(|time| time.0),
    )
}

fn record(py: Python<'_>, version: Option<Owned>) -> Option<Record<'_>> {
    version.map(|(value, begin, end)| (PyBytes::new(py, &value), begin, end))
}

/// A versioned store as one view sees it.
#[pyclass(frozen, module = "holdfast._core")]
pub struct VersionedKeyValueStore {
    store: Store,
    view: View,
}

impl VersionedKeyValueStore {
    /// For Python.
    pub fn new(store: Store, view: View) -> Self {
        Self { store, view }
    }

    fn open_scan(
        &self,
        py: Python<'_>,
        open: impl FnOnce(&Store, &mut Transaction) -> Result<VersionScan> + Send,
    ) -> PyResult<VersionScan> {
        run(py, self.view.owner(), || {
            self.view.read_batch(|tx| open(&self.store, tx))
        })
    }
}

#[pymethods]
impl VersionedKeyValueStore {
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

    fn stream_time(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        run(py, self.view.owner(), || {
            self.view
                .read(|tx| Ok(self.store.stream_time(tx).map(|time| time.0)))
        })
    }

    #[pyo3(signature = (key, value, timestamp))]
    fn put(
        &self,
        py: Python<'_>,
        key: &[u8],
        value: Option<&[u8]>,
        timestamp: i64,
    ) -> PyResult<(bool, Option<i64>)> {
        let result = run(py, self.view.owner(), || {
            self.view
                .write(|tx| self.store.put(tx, key, value, Timestamp(timestamp)))
        })?;
        Ok((result.accepted, result.valid_to.map(|time| time.0)))
    }

    fn delete<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        timestamp: i64,
    ) -> PyResult<Option<Record<'py>>> {
        let version = run(py, self.view.owner(), || {
            self.view.write(|tx| {
                self.store
                    .delete(tx, key, Timestamp(timestamp), |found| found.map(owned))
            })
        })?;
        Ok(record(py, version))
    }

    #[pyo3(signature = (key, as_of))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        as_of: Option<i64>,
    ) -> PyResult<Option<Record<'py>>> {
        let version = run(py, self.view.owner(), || {
            self.view.read(|tx| match as_of {
                Some(at) => self
                    .store
                    .get_as_of(tx, key, Timestamp(at), |found| found.map(owned)),
                None => self.store.get(tx, key, |found| found.map(owned)),
            })
        })?;
        Ok(record(py, version))
    }

    fn versions(
        &self,
        py: Python<'_>,
        key: &[u8],
        start: i64,
        end: i64,
        descending: bool,
    ) -> PyResult<VersionIterator> {
        let scan = self.open_scan(py, |store, tx| {
            store.versions(tx, key, Timestamp(start), Timestamp(end), !descending)
        })?;
        Ok(VersionIterator::new(self.view.db(), scan))
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
        let scan = self.open_scan(py, |store, tx| {
            store.versions_range(tx, key_from, key_to, Timestamp(start), Timestamp(end))
        })?;
        Ok(VersionIterator::new(self.view.db(), scan))
    }

    #[pyo3(signature = (as_of))]
    fn scan(&self, py: Python<'_>, as_of: Option<i64>) -> PyResult<VersionIterator> {
        let scan = self.open_scan(py, |store, tx| store.scan(tx, as_of.map(Timestamp)))?;
        Ok(VersionIterator::new(self.view.db(), scan))
    }

    fn put_batch(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        timestamps: &Bound<'_, PyAny>,
    ) -> PyResult<ArrowBatch> {
        let (keys, values) = (
            Column::import(keys, "keys")?,
            Column::import(values, "values")?,
        );
        let timestamps = Column::import(timestamps, "timestamps")?;
        let batch = run(py, self.view.owner(), || {
            keys.same_rows(&values)?;
            keys.same_rows(&timestamps)?;
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
            self.view.write_batch(|tx| {
                self.store
                    .put_batch(tx, &rows, &mut |result| results.append(result))
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
        let as_of = as_of
            .map(|as_of| Column::import(as_of, "as_of"))
            .transpose()?;
        let batch = run(py, self.view.owner(), || {
            if let Some(as_of) = &as_of {
                keys.same_rows(as_of)?;
            }
            let key_bytes = keys.bytes()?;
            let keys = key_bytes.keys()?;
            let times = as_of.as_ref().map(Column::times).transpose()?;
            let mut columns = VersionColumns::without_keys(keys.len());
            self.view.read_batch(|tx| {
                self.store
                    .get_batch(tx, &keys, times.as_deref(), &mut |_, found| {
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
        let typed = Columns::new(None, value_serde.as_deref(), self.store.name().to_owned());
        let shown = shown_keys(Some(keys));
        let is_put = Column::import(is_put, "is_put")?;
        let (keys, values) = (
            Column::import(keys, "keys")?,
            Column::import(values, "values")?,
        );
        let timestamps = Column::import(timestamps, "timestamps")?;
        let batch = run(py, self.view.owner(), || {
            for column in [&is_put, &values, &timestamps] {
                keys.same_rows(column)?;
            }
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
            self.view.write_batch(|tx| {
                self.store
                    .apply_batch(tx, &ops, true, &mut |_, applied| match applied {
                        Applied::Put(result) => {
                            accepted.append_value(result.accepted);
                            columns.append_end(result.valid_to);
                        }
                        Applied::Get(found) => {
                            accepted.append_null();
                            columns.append(None, found);
                        }
                    })?;
                // Still a part of the write: puts whose result cannot be had must not be committed.
                let accepted = Arc::new(accepted.finish());
                let applied = columns
                    .finish_behind(Field::new("accepted", DataType::Boolean, true), accepted)?;
                typed.typed(&applied, shown.as_ref())
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
        let rows = self::batch_rows(py, batch_rows)?;
        let scan = self.open_scan(py, |store, tx| {
            store.versions_range(tx, key_from, key_to, Timestamp(start), Timestamp(end))
        })?;
        Ok(reader(scan, rows))
    }

    #[pyo3(signature = (as_of, batch_rows))]
    fn scan_batches(
        &self,
        py: Python<'_>,
        as_of: Option<i64>,
        batch_rows: i64,
    ) -> PyResult<ArrowReader> {
        let rows = self::batch_rows(py, batch_rows)?;
        let scan = self.open_scan(py, |store, tx| store.scan(tx, as_of.map(Timestamp)))?;
        Ok(reader(scan, rows))
    }
}

fn reader(mut scan: VersionScan, rows: usize) -> ArrowReader {
    let schema = version_schema(true);
    let made = Arc::clone(&schema);
    ArrowReader::new(
        schema,
        Box::new(std::iter::from_fn(move || {
            version_batch(&mut scan, rows, &made).transpose()
        })),
    )
}

/// The columns of a batch of puts.
struct PutColumns {
    accepted: BooleanBuilder,
    valid_to: Int64Builder,
}

impl PutColumns {
    fn with_capacity(rows: usize) -> Self {
        Self {
            accepted: BooleanBuilder::with_capacity(rows),
            valid_to: Int64Builder::with_capacity(rows),
        }
    }

    fn append(&mut self, result: PutResult) {
        self.accepted.append_value(result.accepted);
        self.valid_to
            .append_option(result.valid_to.map(|time| time.0));
    }

    fn finish(mut self) -> Result<RecordBatch> {
        let fields = vec![
            Field::new("accepted", DataType::Boolean, false),
            Field::new("valid_to", DataType::Int64, true),
        ];
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.accepted.finish()),
            Arc::new(self.valid_to.finish()),
        ];
        batch(Arc::new(Schema::new(fields)), columns)
    }
}

/// Rows of key, value, begin and end.
#[pyclass(frozen, module = "holdfast._core")]
pub struct VersionIterator {
    rows: Rows<(i64, Option<i64>)>,
}

impl VersionIterator {
    fn new(db: Arc<OpenDatabase>, mut scan: VersionScan) -> Self {
        let source = move |chunk: &mut Chunk<_>| {
            scan.for_each(&mut |key, version| {
                chunk.push(
                    key,
                    version.value,
                    (version.timestamp.0, version.valid_to.map(|time| time.0)),
                )
            })?;
            Ok(())
        };
        Self {
            rows: Rows::new(db, Box::new(source)),
        }
    }
}

type KeyedRecord<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, i64, Option<i64>);

#[pymethods]
impl VersionIterator {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<KeyedRecord<'py>>> {
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
