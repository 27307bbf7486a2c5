//! Databases: opening, committing, restoring, closing.
//!
//! `settings.rs`, `store_builder.rs` how a database is opened · `offsets.rs` offsets.

pub mod offsets;
mod settings;
pub mod store_builder;

use crate::arrow::column::Column;
use crate::messages::log_to_python;
use crate::open_database::OpenDatabase;
use crate::run::run;
use crate::stores::key_value::KeyValueStore;
use crate::stores::session::SessionStore;
use crate::stores::store_handle::StoreHandle;
use crate::stores::timestamped::TimestampedKeyValueStore;
use crate::stores::versioned::VersionedKeyValueStore;
use crate::stores::window::WindowStore;
use crate::view::{InputOffsets, View, from_python};
use holdfast_core::{
    Commit, Database as Engine, Error, ErrorKind, Figure, FigureValue, Offset, OffsetChange,
    Process, Result, StoreSpec, Timestamp, TopicPartition, VersionRow,
};
use offsets::{ChangelogOffsets, offset_change, to_python};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use settings::DatabaseSettings;
use std::path::PathBuf;
use std::sync::Arc;
use store_builder::StoreBuilder;

/// The property with the offsets of the last commit that had user stores.
const USER_STORE_OFFSETS: &str = "user_store_offsets";

/// A figure for Python: name, value, unit, meaning.
type PyFigure = (String, Py<PyAny>, &'static str, String);

/// The figures of the database, and those of each store by its name.
type PyMetrics = (Vec<PyFigure>, Vec<(String, Vec<PyFigure>)>);

/// Opens the database in a directory, or creates it. Without a path, the database is in memory.
#[pyfunction]
pub fn open_database(
    py: Python<'_>,
    path: Option<PathBuf>,
    stores: Vec<StoreBuilder>,
    settings: DatabaseSettings,
) -> PyResult<Database> {
    log_to_python(py)?;
    let open = run(py, Process::of_engine(), || {
        let specs: Vec<StoreSpec> = stores
            .into_iter()
            .map(StoreBuilder::spec)
            .collect::<Result<_>>()?;
        let options = settings.options()?;
        Ok(OpenDatabase::new(match path {
            Some(path) => Engine::open(&path, &specs, options)?,
            None => Engine::open_in_memory(&specs, options)?,
        }))
    })?;
    Ok(Database {
        open: Arc::new(open),
    })
}

/// Fails if a store cannot have this name. This opens nothing, so a process may still fork after
/// it.
#[pyfunction]
pub fn check_store_name(py: Python<'_>, name: &str) -> PyResult<()> {
    run(py, Process::current(), || {
        holdfast_core::check_store_name(name)
    })
}

/// Fails for RocksDB options that a database would refuse. This opens nothing either.
#[pyfunction]
pub fn check_rocksdb_options(py: Python<'_>, options: Vec<(String, String)>) -> PyResult<()> {
    run(py, Process::current(), || {
        holdfast_core::check_rocksdb_options(&options)
    })
}

/// A commit with offsets and, if user stores are attached, theirs.
fn commit_of(offsets: OffsetChange, user_store_offsets: Option<Vec<u8>>) -> Commit {
    let properties = user_store_offsets
        .map(|offsets| (USER_STORE_OFFSETS.to_owned(), offsets))
        .into_iter()
        .collect();
    Commit {
        offsets,
        properties,
    }
}

/// Fails if a batch cannot be restored into a store: there is no such store, or the batch lacks
/// timestamps that the store needs, or has timestamps that it does not take.
fn check_restore(db: &Engine, store: &str, has_timestamps: bool) -> Result<()> {
    let wrong = |message: String| Error::new(ErrorKind::InvalidValue, message).store(store);
    let spec = db
        .stores()
        .find(|spec| spec.name == store)
        .ok_or_else(|| wrong("there is no such store in this database".to_owned()))?;
    let needs_timestamps = spec.kind.restores_with_times();
    if needs_timestamps == has_timestamps {
        return Ok(());
    }
    Err(wrong(format!(
        "a {} store {} timestamps",
        spec.kind.name(),
        if needs_timestamps {
            "needs"
        } else {
            "takes no"
        }
    )))
}

/// Converts figures for Python.
fn figures(py: Python<'_>, figures: Vec<Figure>) -> PyResult<Vec<PyFigure>> {
    let figure = |figure: Figure| {
        let value = match figure.value {
            FigureValue::Whole(value) => value.into_py_any(py)?,
            FigureValue::Real(value) => value.into_py_any(py)?,
        };
        let (name, help) = (figure.name.into_owned(), figure.help.into_owned());
        Ok((name, value, figure.unit, help))
    };
    figures.into_iter().map(figure).collect()
}

/// An open database.
#[pyclass(frozen, module = "holdfast._core")]
pub struct Database {
    open: Arc<OpenDatabase>,
}

impl Database {
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&OpenDatabase) -> Result<T> + Send,
    ) -> PyResult<T> {
        run(py, self.open.process(), || work(&self.open))
    }

    /// Returns the writer's handle of a store.
    fn writer<S: Clone + Send + Sync>(
        &self,
        py: Python<'_>,
        store: impl FnOnce(&Engine) -> Result<S> + Send,
    ) -> PyResult<StoreHandle<S>> {
        let store = self.run(py, |open| store(open.db()))?;
        Ok(StoreHandle::writer(store, Arc::clone(&self.open)))
    }
}

#[pymethods]
impl Database {
    fn path(&self) -> PathBuf {
        self.open.db().path().to_owned()
    }

    fn is_open(&self) -> bool {
        self.open.is_open()
    }

    fn key_value(&self, py: Python<'_>, name: &str) -> PyResult<KeyValueStore> {
        let handle = self.writer(py, |db| db.key_value(name))?;
        Ok(KeyValueStore::new(handle))
    }

    fn timestamped_key_value(
        &self,
        py: Python<'_>,
        name: &str,
    ) -> PyResult<TimestampedKeyValueStore> {
        let handle = self.writer(py, |db| db.timestamped_key_value(name))?;
        Ok(TimestampedKeyValueStore::new(handle))
    }

    fn window(&self, py: Python<'_>, name: &str) -> PyResult<WindowStore> {
        let handle = self.writer(py, |db| db.window(name))?;
        Ok(WindowStore::new(handle))
    }

    fn session(&self, py: Python<'_>, name: &str) -> PyResult<SessionStore> {
        let handle = self.writer(py, |db| db.session(name))?;
        Ok(SessionStore::new(handle))
    }

    fn versioned(&self, py: Python<'_>, name: &str) -> PyResult<VersionedKeyValueStore> {
        let handle = self.writer(py, |db| db.versioned(name))?;
        Ok(VersionedKeyValueStore::new(handle))
    }

    #[pyo3(signature = (changelog_offsets, in_text_files))]
    fn check_commit(
        &self,
        py: Python<'_>,
        changelog_offsets: Option<ChangelogOffsets>,
        in_text_files: bool,
    ) -> PyResult<()> {
        self.run(py, |open| {
            let mut in_files = changelog_offsets
                .iter()
                .flatten()
                .filter(|(_, _, offset)| in_text_files && offset.is_some());
            in_files.try_for_each(|(topic, ..)| holdfast_core::check_topic(topic))?;
            open.check_commit(&offset_change(changelog_offsets))
        })
    }

    #[pyo3(signature = (changelog_offsets, user_store_offsets))]
    fn commit(
        &self,
        py: Python<'_>,
        changelog_offsets: Option<ChangelogOffsets>,
        user_store_offsets: Option<Vec<u8>>,
    ) -> PyResult<()> {
        let commit = commit_of(offset_change(changelog_offsets), user_store_offsets);
        self.run(py, |open| open.commit(&commit))
    }

    fn user_store_offsets<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let offsets = self.run(py, |open| open.db().property(USER_STORE_OFFSETS))?;
        Ok(offsets.map(|offsets| PyBytes::new(py, &offsets)))
    }

    fn rollback(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, OpenDatabase::rollback)
    }

    #[pyo3(signature = (
        store, keys, values, timestamps, changelog_offsets, user_store_offsets, position
    ))]
    #[expect(clippy::too_many_arguments, reason = "those of the Python method")]
    fn restore_batch(
        &self,
        py: Python<'_>,
        store: &str,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        timestamps: Option<&Bound<'_, PyAny>>,
        changelog_offsets: ChangelogOffsets,
        user_store_offsets: Option<Vec<u8>>,
        position: InputOffsets,
    ) -> PyResult<()> {
        let [keys, values] = Column::import_all([(keys, "keys"), (values, "values")])?;
        let timestamps = Column::import_optional(timestamps, "timestamps")?;
        // A restore without offsets does not change offsets, and never removes them.
        let offsets = if changelog_offsets.is_empty() {
            OffsetChange::Keep
        } else {
            offset_change(Some(changelog_offsets))
        };
        let commit = commit_of(offsets, user_store_offsets);
        self.run(py, |open| {
            check_restore(open.db(), store, timestamps.is_some())?;
            keys.same_rows([&values].into_iter().chain(&timestamps))?;
            let (key_bytes, value_bytes) = (keys.bytes()?, values.bytes()?);
            let columns = key_bytes.non_null()?.zip(value_bytes.iter());
            let times = timestamps.as_ref().map(Column::times).transpose()?;
            let mut rows = Vec::with_capacity(keys.rows());
            rows.extend(columns.enumerate().map(|(row, (key, value))| VersionRow {
                key,
                value,
                timestamp: times.as_ref().map_or(Timestamp(0), |times| times[row]),
            }));
            let position = from_python(position).collect();
            open.db().restore(store, &rows, &commit, &position)
        })
    }

    fn committed_offset(
        &self,
        py: Python<'_>,
        topic: String,
        partition: i32,
    ) -> PyResult<Option<i64>> {
        let found = self.run(py, |open| {
            open.db()
                .committed_offset(&TopicPartition { topic, partition })
        })?;
        Ok(found.map(|offset| offset.0))
    }

    fn store_offset(
        &self,
        py: Python<'_>,
        store: &str,
        topic: String,
        partition: i32,
    ) -> PyResult<Option<i64>> {
        let found = self.run(py, |open| {
            open.db()
                .store_offset(store, &TopicPartition { topic, partition })
        })?;
        Ok(found.map(|offset| offset.0))
    }

    fn observe(&self, py: Python<'_>, topic: String, partition: i32, offset: i64) -> PyResult<()> {
        self.run(py, |open| {
            open.observe(TopicPartition { topic, partition }, Offset(offset))
        })
    }

    fn position(&self, py: Python<'_>, level: &str) -> PyResult<InputOffsets> {
        let position = self.run(py, |_| {
            View::writer(Arc::clone(&self.open))
                .at_level(level)?
                .read(|tx| Ok(tx.position()))
        })?;
        Ok(to_python(
            position.offsets().map(|(tp, offset)| (tp.clone(), offset)),
        ))
    }

    fn committed_offsets(&self, py: Python<'_>) -> PyResult<InputOffsets> {
        let offsets = self.run(py, |open| open.db().committed_offsets())?;
        Ok(to_python(offsets))
    }

    fn checkpoint(&self, py: Python<'_>, directory: PathBuf) -> PyResult<()> {
        self.run(py, |open| open.db().checkpoint(&directory))
    }

    fn uncommitted_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        self.run(py, |open| {
            open.check_open().map(|()| open.db().uncommitted_bytes())
        })
    }

    fn store_uncommitted_bytes(&self, py: Python<'_>, store: &str) -> PyResult<usize> {
        self.run(py, |open| {
            open.check_open()?;
            open.db().store_uncommitted_bytes(store)
        })
    }

    fn commit_requested(&self, py: Python<'_>, more_bytes: usize) -> PyResult<bool> {
        self.run(py, |open| {
            open.check_open()
                .map(|()| open.commit_requested(more_bytes))
        })
    }

    fn metrics(&self, py: Python<'_>) -> PyResult<PyMetrics> {
        let metrics = self.run(py, |open| open.db().metrics())?;
        let stores = metrics
            .stores
            .into_iter()
            .map(|store| Ok((store.store, figures(py, store.figures)?)))
            .collect::<PyResult<_>>()?;
        Ok((figures(py, metrics.figures)?, stores))
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, |open| open.db().flush(true))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, OpenDatabase::close)
    }
}
