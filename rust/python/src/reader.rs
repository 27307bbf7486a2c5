//! A reader of a root's state.

use crate::arrow::export::{ArrowBatch, ArrowReader};
use crate::arrow::row::{NamedValue, is_plain, row_from_python, row_to_python};
use crate::messages::log_to_python;
use crate::reader_settings::{Cache, cache_settings, offline};
use crate::run::{drop_without_gil, run, run_attached};
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_schema::{FieldRef, Schema, SchemaRef};
use holdfast_core::{Error, ErrorKind, Process, Result};
use holdfast_host::net::read::json;
use holdfast_host::protocol::{Epoch, IsolationLevel, PartitionId};
use holdfast_host::reader::{self, AnswerState, EpochSpan, ReadFrom};
use holdfast_host::root::StorageOptions;
use holdfast_host::tables::{ReadCall, ReadRows};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use pyo3_arrow::PyRecordBatch;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// How long an exit waits for scans: they may wait for a state host or for the object store. It is
/// a part of the time that Python's exit takes for all reads (`batch_stream.py`).
const MOST_OF_EXIT: Duration = Duration::from_secs(8);

/// A table in a list of tables: operator, its kind, store, its kind, columns of the key, and a
/// batch without rows that has all columns.
type ListedTable = (String, String, String, String, Vec<String>, ArrowBatch);

/// Which state to read, as a dict.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct ReadSource {
    epoch: Option<i64>,
    at_least: Option<i64>,
    /// In seconds.
    timeout: f64,
    offline: String,
    isolation_level: Option<String>,
    stale_ok: bool,
}

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
            let reader = self.reader()?;
            work(&reader)
        })
    }

    fn reader(&self) -> Result<Arc<reader::StateReader>> {
        self.reader.lock().clone().ok_or_else(closed)
    }
}

impl Drop for StateReader {
    fn drop(&mut self) {
        let reader = self.reader.get_mut().take();
        // A forked child must not delete its parent's copies.
        if self.process.check().is_err() {
            std::mem::forget(reader);
            return;
        }
        drop_without_gil(|| drop(reader));
    }
}

/// Ends all scans before the process exits.
#[pyfunction]
pub fn end_scans(py: Python<'_>) -> PyResult<()> {
    run(py, Process::current(), || {
        reader::end_scans(MOST_OF_EXIT);
        Ok(())
    })
}

fn closed() -> Error {
    Error::new(
        ErrorKind::StoreClosed,
        "the reader is closed: connect again",
    )
}

fn read_from(py: Python<'_>, source: &ReadSource) -> PyResult<ReadFrom> {
    let invalid = |message| Error::new(ErrorKind::InvalidValue, message);
    run_attached(py, || {
        let timeout = Duration::try_from_secs_f64(source.timeout)
            .map_err(|error| invalid(format!("timeout is {}: {error}", source.timeout)))?;
        let isolation_level = match source.isolation_level.as_deref() {
            None => None,
            Some("read_committed") => Some(IsolationLevel::ReadCommitted),
            Some("read_uncommitted") => Some(IsolationLevel::ReadUncommitted),
            Some(other) => return Err(invalid(format!("there is no isolation level {other:?}"))),
        };
        Ok(ReadFrom {
            exactly: source.epoch.map(Epoch),
            at_least: source.at_least.map(Epoch),
            timeout,
            offline: offline(&source.offline)?,
            isolation_level,
            stale_ok: source.stale_ok,
        })
    })
}

/// Returns a schema whose metadata says which state the rows are from.
fn with_state(schema: &Schema, state: AnswerState) -> SchemaRef {
    let level = match state.isolation_level {
        IsolationLevel::ReadCommitted => "READ_COMMITTED",
        IsolationLevel::ReadUncommitted => "READ_UNCOMMITTED",
    };
    let entries = [
        ("holdfast.epoch", state.epoch.to_string()),
        ("holdfast.isolation_level", level.to_owned()),
        ("holdfast.behind", state.behind.to_string()),
    ];
    let entries = entries.map(|(name, value)| (name.to_owned(), value));
    Arc::new(schema.clone().with_metadata(HashMap::from(entries)))
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
        cache: Cache,
    ) -> PyResult<Self> {
        log_to_python(py)?;
        let process = Process::current();
        let options = StorageOptions(storage_options);
        let reader = run(py, process, || {
            reader::StateReader::connect(root, &options, cache_settings(cache)?)
        })?;
        Ok(Self {
            process,
            reader: Mutex::new(Some(reader)),
        })
    }

    fn root_id(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |reader| Ok(reader.root_id().to_owned()))
    }

    fn partitions(&self, py: Python<'_>) -> PyResult<u32> {
        self.with(py, |reader| Ok(reader.partitions()))
    }

    fn epoch(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        self.with(py, |reader| Ok(reader.epoch()?.map(|epoch| epoch.0)))
    }

    /// Returns the run of the newest rewind that took an epoch back; 0 if there is none.
    fn newest_rewind_of(&self, py: Python<'_>, epoch: i64) -> PyResult<u64> {
        self.with(py, |reader| Ok(reader.newest_rewind_of(Epoch(epoch))?.0))
    }

    /// Returns the figures of each state host that answers, as JSON.
    fn metrics(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |reader| json(&reader.metrics()?))
    }

    /// Returns what each partition does, and what is wrong with it, as JSON.
    fn report(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |reader| json(&reader.report()?))
    }

    /// Sends bytes to the host of a partition, and returns the bytes that it sends back; none if no
    /// host answers.
    fn echo<'py>(
        &self,
        py: Python<'py>,
        operator: &str,
        partition: i32,
        payload: &[u8],
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let echoed = self.with(py, |reader| {
            reader.echo(operator, PartitionId(partition), payload)
        })?;
        Ok(echoed.map(|bytes| PyBytes::new(py, &bytes)))
    }

    fn tables(&self, py: Python<'_>) -> PyResult<Vec<ListedTable>> {
        let tables = self.with(py, |reader| reader.tables())?;
        let listed = tables.iter().map(|table| {
            (
                table.operator.clone(),
                table.operator_kind.clone(),
                table.store.clone(),
                table.kind.to_owned(),
                table.key.clone(),
                ArrowBatch::new(RecordBatch::new_empty(Arc::clone(&table.schema))),
            )
        });
        Ok(listed.collect())
    }

    /// Returns a row for each key, as at least one batch. If several partitions have a row of one
    /// key, the result has all these rows with `every_row`; without it, the read fails.
    fn get(
        &self,
        py: Python<'_>,
        table: (String, String),
        read: &str,
        keys: PyRecordBatch,
        source: ReadSource,
        every_row: bool,
    ) -> PyResult<Vec<ArrowBatch>> {
        let (call, from) = (call(py, read)?, read_from(py, &source)?);
        let keys = keys.into_inner();
        let found = self.with(py, move |reader| {
            let named = (table.0.as_str(), table.1.as_str());
            if every_row {
                reader.get_every_row(named, &call, &keys, from)
            } else {
                reader.get(named, &call, &keys, from)
            }
        })?;
        let schema = with_state(&found.schema, found.state);
        run_attached(py, || {
            let batches = found.batches.into_iter().map(|batch| {
                let rows = batch.with_schema(Arc::clone(&schema)).map_err(|error| {
                    let text = format!("the rows of a read cannot be described: {error}");
                    Error::new(ErrorKind::Serialization, text)
                })?;
                Ok(ArrowBatch::new(rows))
            });
            batches.collect()
        })
    }

    /// Returns a tuple of one item: the row of a key as a dict by column, or `None` if there is no
    /// row. Returns no tuple if only pyarrow can convert the key or a value, or if a column does
    /// not exist.
    ///
    /// `columns` are the columns of the result; by default all columns except the key's.
    fn get_row<'py>(
        &self,
        py: Python<'py>,
        table: (String, String),
        key: Vec<NamedValue<'py>>,
        as_of: Option<i64>,
        columns: Option<Vec<String>>,
        source: ReadSource,
    ) -> PyResult<Option<(Option<Bound<'py, PyDict>>,)>> {
        let from = read_from(py, &source)?;
        let named = (table.0.as_str(), table.1.as_str());
        let known = run_attached(py, || {
            self.process.check()?;
            Ok(self.reader()?.known_table(named))
        })?;
        let known = match known {
            Some(known) => known,
            None => self.with(py, |reader| reader.table(named))?,
        };
        let table = Arc::clone(&known.table);
        let key_fields = table.key().fields();
        let is_value = |field: &&FieldRef| !key_fields.iter().any(|key| key.name() == field.name());
        let is_plain = |field: &FieldRef| is_plain(field.data_type());
        let fields = table.schema().fields();
        let are_plain = match &columns {
            Some(names) => names
                .iter()
                .all(|name| fields.find(name).is_some_and(|(_, field)| is_plain(field))),
            None => fields.iter().filter(is_value).all(is_plain),
        };
        if !are_plain {
            return Ok(None);
        }
        let Some(key) = row_from_python(&key, key_fields) else {
            return Ok(None);
        };
        let call = ReadCall {
            rows: ReadRows::Get,
            as_of,
            ..ReadCall::default()
        };
        let found = self.with(py, |reader| reader.get_named(known, &call, &key, from))?;
        let Some(row) = found.batches.first().filter(|rows| rows.num_rows() == 1) else {
            return Ok(None);
        };
        // The last column: a column of the user's may have the name of this one.
        let last = row.num_columns() - 1;
        if !row.column(last).as_boolean().value(0) {
            return Ok(Some((None,)));
        }
        let row = match &columns {
            Some(names) => row_to_python(py, row, names.iter().map(String::as_str))?,
            None => {
                // The query may have been started with other columns since the table was last read.
                let values = row.schema_ref().fields()[..last].iter().filter(is_value);
                row_to_python(py, row, values.map(|field| field.name().as_str()))?
            }
        };
        Ok(row.map(|row| (Some(row),)))
    }

    /// Returns the partition of each key; `None` if the table's keys do not determine it.
    fn places(
        &self,
        py: Python<'_>,
        table: (String, String),
        keys: PyRecordBatch,
    ) -> PyResult<Option<Vec<i32>>> {
        let keys = keys.into_inner();
        let places = self.with(py, move |reader| reader.places((&table.0, &table.1), &keys))?;
        Ok(places.map(|places| places.into_iter().map(|place| place.0).collect()))
    }

    /// Returns the rows of a scan, of all partitions or of one.
    fn scan(
        &self,
        py: Python<'_>,
        table: (String, String),
        read: &str,
        bounds: PyRecordBatch,
        partition: Option<i32>,
        source: ReadSource,
    ) -> PyResult<ArrowReader> {
        let (call, from) = (call(py, read)?, read_from(py, &source)?);
        let bounds = bounds.into_inner();
        let stream = self.with(py, move |reader| {
            reader.scan(
                (&table.0, &table.1),
                call,
                bounds,
                partition.map(PartitionId),
                from,
            )
        })?;
        let schema = with_state(stream.schema(), stream.state());
        Ok(ArrowReader::new(schema, Box::new(stream)))
    }

    /// Returns the columns of a table's changes, as a batch without rows.
    fn changes_schema(&self, py: Python<'_>, table: (String, String)) -> PyResult<ArrowBatch> {
        let schema = self.with(py, |reader| reader.changes_schema((&table.0, &table.1)))?;
        Ok(ArrowBatch::new(RecordBatch::new_empty(schema)))
    }

    /// Returns the oldest epoch from which a table's changes can be read.
    fn oldest_changes(&self, py: Python<'_>, table: (String, String)) -> PyResult<Option<i64>> {
        self.with(py, |reader| {
            let oldest = reader.oldest_changes((&table.0, &table.1))?;
            Ok(oldest.map(|epoch| epoch.0))
        })
    }

    /// Returns the changes of a table between two epochs.
    fn changes(
        &self,
        py: Python<'_>,
        table: (String, String),
        epochs: (Option<i64>, Option<i64>),
        partition: Option<i32>,
    ) -> PyResult<ArrowReader> {
        let span = EpochSpan {
            from: epochs.0.map(Epoch),
            to: epochs.1.map(Epoch),
        };
        let stream = self.with(py, |reader| {
            reader.changes((&table.0, &table.1), span, partition.map(PartitionId))
        })?;
        Ok(ArrowReader::new(
            Arc::clone(stream.schema()),
            Box::new(stream),
        ))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        run(py, self.process, || {
            // The reader is dropped without the lock: other threads wait for the lock with the GIL.
            let reader = self.reader.lock().take();
            drop(reader);
            Ok(())
        })
    }
}
