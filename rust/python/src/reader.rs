//! A reader of a root's state.

use crate::arrow::export::{ArrowBatch, ArrowReader};
use crate::process::Process;
use crate::run::{run, run_attached};
use arrow_array::RecordBatch;
use holdfast_core::{Error, ErrorKind, Result};
use holdfast_host::protocol::Epoch;
use holdfast_host::reader::{self, Offline, ReadFrom};
use holdfast_host::root::StorageOptions;
use holdfast_host::tables::ReadCall;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3_arrow::PyRecordBatch;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A table of a list: operator, its kind, store, its kind, columns of the key, and a batch without
/// rows that has the columns.
type ListedTable = (String, String, String, String, Vec<String>, ArrowBatch);

/// What to read as Python gives it: the epoch exactly, at least, how long to wait in seconds, and
/// whether to read copies.
type FromArguments = (Option<i64>, Option<i64>, f64, String);

/// A reader of a root's state.
#[pyclass(frozen, module = "holdfast._core")]
pub struct StateReader {
    process: Process,
    /// `None` once it is closed.
    reader: Mutex<Option<Arc<reader::StateReader>>>,
}

impl StateReader {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Arc<reader::StateReader>) -> Result<T> + Send,
    ) -> PyResult<T> {
        run(py, self.process, || {
            let reader = self.reader.lock().clone().ok_or_else(closed)?;
            work(&reader)
        })
    }
}

impl Drop for StateReader {
    fn drop(&mut self) {
        // A forked child must not delete its parent's copies.
        if self.process.check().is_err() {
            std::mem::forget(self.reader.get_mut().take());
        }
    }
}

fn closed() -> Error {
    Error::new(
        ErrorKind::StoreClosed,
        "the reader is closed: connect again",
    )
}

fn read_from(
    py: Python<'_>,
    (exactly, at_least, timeout, offline): FromArguments,
) -> PyResult<ReadFrom> {
    run_attached(py, || {
        let timeout = Duration::try_from_secs_f64(timeout).map_err(|error| {
            let message = format!("timeout is {timeout}: {error}");
            Error::new(ErrorKind::InvalidValue, message)
        })?;
        let offline = match offline.as_str() {
            "auto" => Offline::Auto,
            "never" => Offline::Never,
            "only" => Offline::Only,
            other => {
                let message = format!("offline is {other:?}: give \"auto\", \"never\" or \"only\"");
                return Err(Error::new(ErrorKind::InvalidValue, message));
            }
        };
        Ok(ReadFrom {
            exactly: exactly.map(Epoch),
            at_least: at_least.map(Epoch),
            timeout,
            offline,
        })
    })
}

fn call(py: Python<'_>, json: &str) -> PyResult<ReadCall> {
    run_attached(py, || ReadCall::parse(json.as_bytes()))
}

#[pymethods]
impl StateReader {
    #[staticmethod]
    fn connect(
        py: Python<'_>,
        root: &str,
        storage_options: BTreeMap<String, String>,
        cache_dir: Option<PathBuf>,
    ) -> PyResult<Self> {
        let process = Process::current();
        let options = StorageOptions(storage_options);
        let reader = run(py, process, || {
            reader::StateReader::connect(root, &options, cache_dir.as_deref())
        })?;
        Ok(Self {
            process,
            reader: Mutex::new(Some(reader)),
        })
    }

    fn partitions(&self, py: Python<'_>) -> PyResult<u32> {
        self.with(py, |reader| Ok(reader.partitions()))
    }

    fn epoch(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        self.with(py, |reader| Ok(reader.epoch()?.map(|epoch| epoch.0)))
    }

    fn tables(&self, py: Python<'_>) -> PyResult<Vec<ListedTable>> {
        let tables = self.with(py, |reader| reader.tables())?;
        let listed = tables.into_iter().map(|table| {
            (
                table.operator,
                table.operator_kind,
                table.store,
                table.kind.to_owned(),
                table.key,
                ArrowBatch::new(RecordBatch::new_empty(table.schema)),
            )
        });
        Ok(listed.collect())
    }

    /// Returns a row for each key, and the epoch.
    fn get(
        &self,
        py: Python<'_>,
        table: (String, String),
        read: &str,
        keys: PyRecordBatch,
        source: FromArguments,
    ) -> PyResult<(ArrowBatch, i64)> {
        let (call, from) = (call(py, read)?, read_from(py, source)?);
        let keys = keys.into_inner();
        let found = self.with(py, move |reader| {
            reader.get((&table.0, &table.1), &call, &keys, from)
        })?;
        Ok((ArrowBatch::new(found.rows), found.epoch.0))
    }

    /// Returns the rows of a scan, and the epoch.
    fn scan(
        &self,
        py: Python<'_>,
        table: (String, String),
        read: &str,
        bounds: PyRecordBatch,
        source: FromArguments,
    ) -> PyResult<(ArrowReader, i64)> {
        let (call, from) = (call(py, read)?, read_from(py, source)?);
        let bounds = bounds.into_inner();
        let stream = self.with(py, move |reader| {
            reader.scan((&table.0, &table.1), call, bounds, from)
        })?;
        let epoch = stream.epoch().0;
        let schema = Arc::clone(stream.schema());
        Ok((ArrowReader::new(schema, Box::new(stream)), epoch))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        run(py, self.process, || {
            drop(self.reader.lock().take());
            Ok(())
        })
    }
}
