//! Tasks: opening, committing, restoring, closing.

use crate::builder::Builder;
use crate::columns::Column;
use crate::key_value::KeyValueStore;
use crate::run::{Owner, run};
use crate::serde::{Serde, side};
use crate::session::SessionStore;
use crate::timestamped::TimestampedKeyValueStore;
use crate::versioned::VersionedKeyValueStore;
use crate::view::{OpenTask, View};
use crate::window::WindowStore;
use holdfast_core::{
    Durability, Error, ErrorKind, Offset, OffsetChange, ProcessingGuarantee, Result, StoreSpec, Task as Engine, TaskOptions, Timestamp,
    TopicPartition, VersionRow,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;
use std::sync::Arc;

/// Topic, partition, offset; no offset forgets it.
type Offsets = Vec<(String, i32, Option<i64>)>;

fn offset_change(offsets: Option<Offsets>) -> OffsetChange {
    match offsets {
        None => OffsetChange::Keep,
        Some(offsets) if offsets.is_empty() => OffsetChange::Forget,
        Some(offsets) => OffsetChange::Set(
            offsets.into_iter().map(|(topic, partition, offset)| (TopicPartition { topic, partition }, offset.map(Offset))).collect(),
        ),
    }
}

/// Sends the engine's log lines to Python's `logging`, under loggers named `holdfast_core…`.
///
/// With the first task and not at import: the state host logs to its own file, and never opens a task from Python.
fn log_to_python() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // An error says that a logger is set already, which then gets the lines.
        let _ = pyo3_log::try_init();
    });
}

/// Opens the task in a directory, or makes it; without a path it is in memory.
#[pyfunction]
pub fn open_task(
    py: Python<'_>,
    path: Option<PathBuf>,
    stores: Vec<Builder>,
    durability: &str,
    guarantee: &str,
    uncommitted_max_bytes: i64,
    rocksdb_options: Vec<(String, String)>,
) -> PyResult<Task> {
    log_to_python();
    let open = run(py, Owner::of_engine(), || {
        let unknown = |what: &str, name: &str| Error::new(ErrorKind::InvalidValue, format!("there is no {what} {name:?}"));
        let known = [Durability::Sync, Durability::Changelog].into_iter().find(|known| known.name() == durability);
        let durability = known.ok_or_else(|| unknown("durability", durability))?;
        let known =
            [ProcessingGuarantee::AtLeastOnce, ProcessingGuarantee::ExactlyOnce].into_iter().find(|known| known.name() == guarantee);
        let guarantee = known.ok_or_else(|| unknown("processing guarantee", guarantee))?;
        let specs: Vec<StoreSpec> = stores.into_iter().map(Builder::spec).collect::<Result<_>>()?;
        let options = TaskOptions { durability, guarantee, uncommitted_max_bytes, rocksdb_options, ..TaskOptions::default() };
        Ok(OpenTask::new(match path {
            Some(path) => Engine::open(&path, &specs, options)?,
            None => Engine::open_in_memory(&specs, options)?,
        }))
    })?;
    Ok(Task { open: Arc::new(open) })
}

/// An open task.
#[pyclass(frozen, module = "holdfast._core")]
pub struct Task {
    open: Arc<OpenTask>,
}

impl Task {
    fn run<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&OpenTask) -> Result<T> + Send) -> PyResult<T> {
        run(py, self.open.owner(), || work(&self.open))
    }
}

#[pymethods]
impl Task {
    fn path(&self) -> PathBuf {
        self.open.task().path().to_owned()
    }

    fn is_open(&self) -> bool {
        self.open.is_open()
    }

    fn keep_serdes(&self, py: Python<'_>, serdes: Vec<(String, bool, Py<Serde>)>) -> PyResult<()> {
        self.run(py, |open| {
            let serdes: Vec<_> = serdes.iter().map(|(store, as_key, serde)| (store.clone(), side(*as_key), serde.get().engine())).collect();
            open.task().keep_serdes(&serdes)
        })
    }

    fn key_value(&self, py: Python<'_>, name: &str) -> PyResult<KeyValueStore> {
        let store = self.run(py, |open| open.task().key_value(name))?;
        Ok(KeyValueStore::new(store, View::writer(Arc::clone(&self.open))))
    }

    fn timestamped_key_value(&self, py: Python<'_>, name: &str) -> PyResult<TimestampedKeyValueStore> {
        let store = self.run(py, |open| open.task().timestamped_key_value(name))?;
        Ok(TimestampedKeyValueStore::new(store, View::writer(Arc::clone(&self.open))))
    }

    fn window(&self, py: Python<'_>, name: &str) -> PyResult<WindowStore> {
        let store = self.run(py, |open| open.task().window(name))?;
        Ok(WindowStore::new(store, View::writer(Arc::clone(&self.open))))
    }

    fn session(&self, py: Python<'_>, name: &str) -> PyResult<SessionStore> {
        let store = self.run(py, |open| open.task().session(name))?;
        Ok(SessionStore::new(store, View::writer(Arc::clone(&self.open))))
    }

    fn versioned(&self, py: Python<'_>, name: &str) -> PyResult<VersionedKeyValueStore> {
        let store = self.run(py, |open| open.task().versioned(name))?;
        Ok(VersionedKeyValueStore::new(store, View::writer(Arc::clone(&self.open))))
    }

    #[pyo3(signature = (changelog_offsets))]
    fn commit(&self, py: Python<'_>, changelog_offsets: Option<Offsets>) -> PyResult<()> {
        self.run(py, |open| open.commit(offset_change(changelog_offsets)))
    }

    fn rollback(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, OpenTask::rollback)
    }

    #[pyo3(signature = (store, keys, values, timestamps, changelog_offsets))]
    fn restore_batch(
        &self,
        py: Python<'_>,
        store: &str,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        timestamps: Option<&Bound<'_, PyAny>>,
        changelog_offsets: Offsets,
    ) -> PyResult<()> {
        let (keys, values) = (Column::import(keys, "keys")?, Column::import(values, "values")?);
        let timestamps = timestamps.map(|timestamps| Column::import(timestamps, "timestamps")).transpose()?;
        self.run(py, |open| {
            let Some(kind) = open.task().stores().find(|spec| spec.name == store).map(|spec| &spec.kind) else {
                return Err(Error::new(ErrorKind::InvalidValue, "there is no such store in this task").store(store));
            };
            let needs_times = kind.restores_with_times();
            if needs_times != timestamps.is_some() {
                let words = format!("a {} store {} timestamps", kind.name(), if needs_times { "needs" } else { "takes no" });
                return Err(Error::new(ErrorKind::InvalidValue, words).store(store));
            }
            keys.same_rows(&values)?;
            if let Some(timestamps) = &timestamps {
                keys.same_rows(timestamps)?;
            }
            let (key_bytes, value_bytes) = (keys.bytes()?, values.bytes()?);
            let (keys, values) = (key_bytes.keys()?, value_bytes.slices());
            let times = timestamps.as_ref().map(Column::times).transpose()?;
            let time = |row: usize| times.as_ref().map_or(Timestamp(0), |times| times[row]);
            let rows: Vec<VersionRow<'_>> =
                (0..keys.len()).map(|row| VersionRow { key: keys[row], value: values[row], timestamp: time(row) }).collect();
            // Nothing to say about offsets leaves them as they are: a restore never forgets.
            let offsets = if changelog_offsets.is_empty() { OffsetChange::Keep } else { offset_change(Some(changelog_offsets)) };
            open.task().restore(store, &rows, offsets)
        })
    }

    fn committed_offset(&self, py: Python<'_>, topic: String, partition: i32) -> PyResult<Option<i64>> {
        let found = self.run(py, |open| open.task().committed_offset(&TopicPartition { topic, partition }))?;
        Ok(found.map(|offset| offset.0))
    }

    fn store_offset(&self, py: Python<'_>, store: &str, topic: String, partition: i32) -> PyResult<Option<i64>> {
        let found = self.run(py, |open| open.task().store_offset(store, &TopicPartition { topic, partition }))?;
        Ok(found.map(|offset| offset.0))
    }

    fn observe(&self, py: Python<'_>, topic: String, partition: i32, offset: i64) -> PyResult<()> {
        self.run(py, |open| open.observe(TopicPartition { topic, partition }, Offset(offset)))
    }

    fn position(&self, py: Python<'_>, level: &str) -> PyResult<Vec<(String, i32, i64)>> {
        let position = self.run(py, |_| View::writer(Arc::clone(&self.open)).reader(level, None)?.read(|tx| Ok(tx.position())))?;
        Ok(position.offsets().map(|(tp, offset)| (tp.topic.clone(), tp.partition, offset.0)).collect())
    }

    fn committed_offsets(&self, py: Python<'_>) -> PyResult<Vec<(String, i32, i64)>> {
        let offsets = self.run(py, |open| open.task().committed_offsets())?;
        Ok(offsets.into_iter().map(|(tp, offset)| (tp.topic, tp.partition, offset.0)).collect())
    }

    fn checkpoint(&self, py: Python<'_>, directory: PathBuf) -> PyResult<()> {
        self.run(py, |open| open.task().checkpoint(&directory))
    }

    fn uncommitted_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        self.run(py, |open| Ok(open.task().uncommitted_bytes()))
    }

    fn commit_requested(&self, py: Python<'_>) -> PyResult<bool> {
        self.run(py, |open| Ok(open.commit_requested()))
    }

    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let metrics = self.run(py, |open| open.task().metrics())?;
        let task = PyDict::new(py);
        task.set_item("commit-total", metrics.commits)?;
        task.set_item("commit-latency-avg", metrics.commit_latency_avg)?;
        task.set_item("commit-latency-max", metrics.commit_latency_max)?;
        task.set_item("uncommitted-bytes", metrics.uncommitted_bytes)?;
        task.set_item("unflushed-bytes", metrics.unflushed_bytes)?;
        task.set_item("file-bytes", metrics.file_bytes)?;
        task.set_item("memory-bytes", metrics.memory_bytes)?;
        let stores = PyDict::new(py);
        for metrics in metrics.stores {
            let store = PyDict::new(py);
            store.set_item("rows", metrics.rows)?;
            store.set_item("dropped-records-total", metrics.dropped_records)?;
            store.set_item("expired-reads-total", metrics.expired_reads)?;
            stores.set_item(metrics.name, store)?;
        }
        task.set_item("stores", stores)?;
        Ok(task)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, OpenTask::close)
    }
}
