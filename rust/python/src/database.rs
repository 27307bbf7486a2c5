//! Databases: opening, committing, restoring, closing.

use crate::builder::Builder;
use crate::columns::Column;
use crate::key_value::KeyValueStore;
use crate::run::{Owner, run};
use crate::serde::{Serde, side};
use crate::session::SessionStore;
use crate::timestamped::TimestampedKeyValueStore;
use crate::versioned::VersionedKeyValueStore;
use crate::view::{OpenDatabase, View};
use crate::window::WindowStore;
use holdfast_core::{
    Database as Engine, DatabaseOptions, Durability, Error, ErrorKind, Figure, MetricsLevel,
    Offset, OffsetChange, ProcessingGuarantee, Result, StoreSpec, Timestamp, TopicPartition,
    TransactionMechanism, Value, VersionRow,
};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;

/// Topic, partition, offset; no offset forgets it.
type Offsets = Vec<(String, i32, Option<i64>)>;

/// A figure as Python sees it: name, value, unit, meaning.
type PyFigure = (String, Py<PyAny>, &'static str, String);

/// The database's figures, and those of each store by its name.
type Metrics = (Vec<PyFigure>, Vec<(String, Vec<PyFigure>)>);

fn offset_change(offsets: Option<Offsets>) -> OffsetChange {
    match offsets {
        None => OffsetChange::Keep,
        Some(offsets) if offsets.is_empty() => OffsetChange::Forget,
        Some(offsets) => OffsetChange::Set(
            offsets
                .into_iter()
                .map(|(topic, partition, offset)| {
                    (TopicPartition { topic, partition }, offset.map(Offset))
                })
                .collect(),
        ),
    }
}

/// Sends the engine's log lines to Python's `logging`, under loggers named `holdfast_core…`.
///
/// With the first database and not at import: the state host logs to its own file, and never opens
/// a database from Python.
fn log_to_python() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // An error says that a logger is set already, which then gets the lines.
        let _ = pyo3_log::try_init();
    });
}

/// How a database is opened, as `holdfast.open` says it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Settings {
    durability: String,
    guarantee: String,
    mechanism: String,
    uncommitted_max_bytes: i64,
    metrics_level: String,
    older_layout: bool,
    rocksdb_options: Vec<(String, String)>,
}

impl Settings {
    fn options(self) -> Result<DatabaseOptions> {
        Ok(DatabaseOptions {
            durability: named(
                "durability",
                &self.durability,
                [Durability::Sync, Durability::Changelog],
                Durability::name,
            )?,
            guarantee: named(
                "processing guarantee",
                &self.guarantee,
                [
                    ProcessingGuarantee::AtLeastOnce,
                    ProcessingGuarantee::ExactlyOnce,
                ],
                ProcessingGuarantee::name,
            )?,
            mechanism: named(
                "transaction mechanism",
                &self.mechanism,
                [
                    TransactionMechanism::Auto,
                    TransactionMechanism::IndexedBatch,
                    TransactionMechanism::SecondaryStore,
                ],
                TransactionMechanism::name,
            )?,
            metrics_level: named(
                "metrics level",
                &self.metrics_level,
                [MetricsLevel::Info, MetricsLevel::Debug],
                MetricsLevel::name,
            )?,
            uncommitted_max_bytes: self.uncommitted_max_bytes,
            older_layout: self.older_layout,
            rocksdb_options: self.rocksdb_options,
            ..DatabaseOptions::default()
        })
    }
}

fn named<T: Copy>(
    what: &str,
    name: &str,
    all: impl IntoIterator<Item = T>,
    name_of: impl Fn(T) -> &'static str,
) -> Result<T> {
    let found = all.into_iter().find(|known| name_of(*known) == name);
    found.ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidValue,
            format!("there is no {what} {name:?}"),
        )
    })
}

/// Opens the database in a directory, or makes it; without a path it is in memory.
#[pyfunction]
pub fn open_database(
    py: Python<'_>,
    path: Option<PathBuf>,
    stores: Vec<Builder>,
    settings: Settings,
) -> PyResult<Database> {
    log_to_python();
    let open = run(py, Owner::of_engine(), || {
        let specs: Vec<StoreSpec> = stores
            .into_iter()
            .map(Builder::spec)
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

/// The offsets in a text file of older layouts; `None` if there is no file.
#[pyfunction]
pub fn read_offsets(py: Python<'_>, path: PathBuf) -> PyResult<Option<Vec<(String, i32, i64)>>> {
    let offsets = run(py, Owner::of_engine(), || {
        holdfast_core::read_offsets(&path)
    })?;
    Ok(offsets.map(|offsets| {
        offsets
            .into_iter()
            .map(|(tp, offset)| (tp.topic, tp.partition, offset.0))
            .collect()
    }))
}

/// Writes such a file, all or nothing.
#[pyfunction]
pub fn write_offsets(
    py: Python<'_>,
    path: PathBuf,
    offsets: Vec<(String, i32, i64)>,
) -> PyResult<()> {
    let offset = |(topic, partition, offset)| (TopicPartition { topic, partition }, Offset(offset));
    run(py, Owner::of_engine(), || {
        holdfast_core::write_offsets(&path, &offsets.into_iter().map(offset).collect())
    })
}

/// Removes such a file, if there is one, for good when it returns.
#[pyfunction]
pub fn remove_offsets(py: Python<'_>, path: PathBuf) -> PyResult<()> {
    run(py, Owner::of_engine(), || {
        holdfast_core::remove_offsets(&path)
    })
}

/// Fails for a topic that such a file has no place for.
#[pyfunction]
pub fn check_topic(py: Python<'_>, topic: &str) -> PyResult<()> {
    run(py, Owner::current(), || holdfast_core::check_topic(topic))
}

/// Fails for what cannot be a store's name. It opens nothing: a process may describe stores and
/// then fork.
#[pyfunction]
pub fn check_store_name(py: Python<'_>, name: &str) -> PyResult<()> {
    run(py, Owner::current(), || {
        holdfast_core::check_store_name(name)
    })
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
        run(py, self.open.owner(), || work(&self.open))
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

    fn keep_serdes(&self, py: Python<'_>, serdes: Vec<(String, bool, Py<Serde>)>) -> PyResult<()> {
        self.run(py, |open| {
            let serdes: Vec<_> = serdes
                .iter()
                .map(|(store, as_key, serde)| (store.clone(), side(*as_key), serde.get().engine()))
                .collect();
            open.db().keep_serdes(&serdes)
        })
    }

    fn key_value(&self, py: Python<'_>, name: &str) -> PyResult<KeyValueStore> {
        let store = self.run(py, |open| open.db().key_value(name))?;
        Ok(KeyValueStore::new(
            store,
            View::writer(Arc::clone(&self.open)),
        ))
    }

    fn timestamped_key_value(
        &self,
        py: Python<'_>,
        name: &str,
    ) -> PyResult<TimestampedKeyValueStore> {
        let store = self.run(py, |open| open.db().timestamped_key_value(name))?;
        Ok(TimestampedKeyValueStore::new(
            store,
            View::writer(Arc::clone(&self.open)),
        ))
    }

    fn window(&self, py: Python<'_>, name: &str) -> PyResult<WindowStore> {
        let store = self.run(py, |open| open.db().window(name))?;
        Ok(WindowStore::new(
            store,
            View::writer(Arc::clone(&self.open)),
        ))
    }

    fn session(&self, py: Python<'_>, name: &str) -> PyResult<SessionStore> {
        let store = self.run(py, |open| open.db().session(name))?;
        Ok(SessionStore::new(
            store,
            View::writer(Arc::clone(&self.open)),
        ))
    }

    fn versioned(&self, py: Python<'_>, name: &str) -> PyResult<VersionedKeyValueStore> {
        let store = self.run(py, |open| open.db().versioned(name))?;
        Ok(VersionedKeyValueStore::new(
            store,
            View::writer(Arc::clone(&self.open)),
        ))
    }

    #[pyo3(signature = (changelog_offsets, in_text_files))]
    fn check_commit(
        &self,
        py: Python<'_>,
        changelog_offsets: Option<Offsets>,
        in_text_files: bool,
    ) -> PyResult<()> {
        self.run(py, |open| {
            let mut kept = changelog_offsets
                .iter()
                .flatten()
                .filter(|(_, _, offset)| in_text_files && offset.is_some());
            kept.try_for_each(|(topic, ..)| holdfast_core::check_topic(topic))?;
            open.check_commit(&offset_change(changelog_offsets))
        })
    }

    #[pyo3(signature = (changelog_offsets))]
    fn commit(&self, py: Python<'_>, changelog_offsets: Option<Offsets>) -> PyResult<()> {
        self.run(py, |open| open.commit(offset_change(changelog_offsets)))
    }

    fn rollback(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, OpenDatabase::rollback)
    }

    fn recover(&self, py: Python<'_>) -> PyResult<Vec<(String, i32, i64)>> {
        let offsets = self.run(py, OpenDatabase::recover)?;
        Ok(offsets
            .into_iter()
            .map(|(tp, offset)| (tp.topic, tp.partition, offset.0))
            .collect())
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
        let (keys, values) = (
            Column::import(keys, "keys")?,
            Column::import(values, "values")?,
        );
        let timestamps = timestamps
            .map(|timestamps| Column::import(timestamps, "timestamps"))
            .transpose()?;
        self.run(py, |open| {
            let Some(kind) = open
                .db()
                .stores()
                .find(|spec| spec.name == store)
                .map(|spec| &spec.kind)
            else {
                return Err(Error::new(
                    ErrorKind::InvalidValue,
                    "there is no such store in this database",
                )
                .store(store));
            };
            let needs_times = kind.restores_with_times();
            if needs_times != timestamps.is_some() {
                let words = format!(
                    "a {} store {} timestamps",
                    kind.name(),
                    if needs_times { "needs" } else { "takes no" }
                );
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
            let rows: Vec<VersionRow<'_>> = (0..keys.len())
                .map(|row| VersionRow {
                    key: keys[row],
                    value: values[row],
                    timestamp: time(row),
                })
                .collect();
            // Nothing to say about offsets leaves them as they are: a restore never forgets.
            let offsets = if changelog_offsets.is_empty() {
                OffsetChange::Keep
            } else {
                offset_change(Some(changelog_offsets))
            };
            open.db().restore(store, &rows, offsets)
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

    fn position(&self, py: Python<'_>, level: &str) -> PyResult<Vec<(String, i32, i64)>> {
        let position = self.run(py, |_| {
            View::writer(Arc::clone(&self.open))
                .at_level(level)?
                .read(|tx| Ok(tx.position()))
        })?;
        Ok(position
            .offsets()
            .map(|(tp, offset)| (tp.topic.clone(), tp.partition, offset.0))
            .collect())
    }

    fn committed_offsets(&self, py: Python<'_>) -> PyResult<Vec<(String, i32, i64)>> {
        let offsets = self.run(py, |open| open.db().committed_offsets())?;
        Ok(offsets
            .into_iter()
            .map(|(tp, offset)| (tp.topic, tp.partition, offset.0))
            .collect())
    }

    fn checkpoint(&self, py: Python<'_>, directory: PathBuf) -> PyResult<()> {
        self.run(py, |open| open.db().checkpoint(&directory))
    }

    fn uncommitted_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        self.run(py, |open| {
            open.check_open().map(|()| open.db().uncommitted_bytes())
        })
    }

    fn commit_requested(&self, py: Python<'_>) -> PyResult<bool> {
        self.run(py, |open| {
            open.check_open().map(|()| open.commit_requested())
        })
    }

    fn metrics(&self, py: Python<'_>) -> PyResult<Metrics> {
        let metrics = self.run(py, |open| open.db().metrics())?;
        let figures = |figures: Vec<Figure>| {
            let figure = |figure: Figure| -> PyResult<PyFigure> {
                let value = match figure.value {
                    Value::Whole(value) => value.into_py_any(py)?,
                    Value::Real(value) => value.into_py_any(py)?,
                };
                Ok((
                    figure.name.into_owned(),
                    value,
                    figure.unit,
                    figure.help.into_owned(),
                ))
            };
            figures
                .into_iter()
                .map(figure)
                .collect::<PyResult<Vec<_>>>()
        };
        let stores = metrics
            .stores
            .into_iter()
            .map(|store| Ok((store.store, figures(store.figures)?)));
        Ok((figures(metrics.figures)?, stores.collect::<PyResult<_>>()?))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, OpenDatabase::close)
    }
}
