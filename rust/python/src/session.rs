//! The session store.

use crate::columns::Column;
use crate::error::to_python;
use crate::export::{ArrowArray, ArrowBatch, ArrowReader, batch_rows};
use crate::iterator::{Chunk, Rows};
use crate::run::run;
use crate::view::{Offsets, OpenDatabase, View};
use crate::window::{PythonKey, Selection};
use holdfast_core::column::{Places, SESSION, WindowedColumns};
use holdfast_core::{
    NO_TIMESTAMP, SessionQuery, SessionScan, SessionStore as Store, Stamped, Timestamp, WindowedKey,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Arc;

/// A session store as one view sees it.
#[pyclass(frozen, module = "holdfast._core")]
pub struct SessionStore {
    store: Store,
    view: View,
}

impl SessionStore {
    /// For Python.
    pub fn new(store: Store, view: View) -> Self {
        Self { store, view }
    }

    fn scan(
        &self,
        py: Python<'_>,
        (key_from, key_to, end, start, reverse): &Selection,
    ) -> PyResult<SessionScan> {
        let query = SessionQuery {
            key_from: key_from.as_deref(),
            key_to: key_to.as_deref(),
            earliest_end: Timestamp(*end),
            latest_start: Timestamp(*start),
            reverse: *reverse,
        };
        run(py, self.view.owner(), || {
            self.view.read(|tx| self.store.find_sessions(tx, query))
        })
    }

    /// Puts (or, without values, removes) a batch, which is checked before anything is staged.
    fn write(
        &self,
        py: Python<'_>,
        keys: &Column<'_>,
        starts: &Column<'_>,
        ends: &Column<'_>,
        values: Option<&Column<'_>>,
    ) -> PyResult<()> {
        run(py, self.view.owner(), || {
            for column in [Some(starts), Some(ends), values].into_iter().flatten() {
                keys.same_rows(column)?;
            }
            let (key_bytes, starts, ends) = (keys.bytes()?, starts.times()?, ends.times()?);
            let value_bytes = values.map(Column::bytes).transpose()?;
            let keys = key_bytes.keys()?;
            let values = value_bytes
                .as_ref()
                .map_or_else(|| vec![None; keys.len()], |values| values.slices());
            let puts: Vec<_> = keys
                .into_iter()
                .zip(starts)
                .zip(ends)
                .zip(values)
                .map(|(((key, start), end), value)| (WindowedKey { key, start, end }, value))
                .collect();
            self.store.check(&puts)?;
            self.view.write_batch(|tx| self.store.put_batch(tx, &puts))
        })
    }
}

#[pymethods]
impl SessionStore {
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
        let time = run(py, self.view.owner(), || {
            self.view.read(|tx| Ok(self.store.stream_time(tx)))
        })?;
        Ok(time.map(|time| time.0))
    }

    #[pyo3(signature = (key, start, end, value))]
    fn put(
        &self,
        py: Python<'_>,
        key: &[u8],
        start: i64,
        end: i64,
        value: Option<&[u8]>,
    ) -> PyResult<()> {
        let session = WindowedKey {
            key,
            start: Timestamp(start),
            end: Timestamp(end),
        };
        run(py, self.view.owner(), || {
            self.store.check(&[(session, value)])?;
            self.view.write(|tx| self.store.put(tx, session, value))
        })
    }

    fn fetch_session<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        start: i64,
        end: i64,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let session = WindowedKey {
            key,
            start: Timestamp(start),
            end: Timestamp(end),
        };
        let found = run(py, self.view.owner(), || {
            self.view.read(|tx| {
                self.store
                    .fetch_session(tx, session, |found| found.map(<[u8]>::to_vec))
            })
        })?;
        Ok(found.map(|value| PyBytes::new(py, &value)))
    }

    fn find_sessions(&self, py: Python<'_>, wanted: Selection) -> PyResult<SessionIterator> {
        Ok(SessionIterator::new(
            self.view.db(),
            self.scan(py, &wanted)?,
        ))
    }

    fn put_batch(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        starts: &Bound<'_, PyAny>,
        ends: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (keys, values) = (
            Column::import(keys, "keys")?,
            Column::import(values, "values")?,
        );
        let (starts, ends) = (
            Column::import(starts, "starts")?,
            Column::import(ends, "ends")?,
        );
        self.write(py, &keys, &starts, &ends, Some(&values))
    }

    fn remove_batch(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        starts: &Bound<'_, PyAny>,
        ends: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let keys = Column::import(keys, "keys")?;
        let (starts, ends) = (
            Column::import(starts, "starts")?,
            Column::import(ends, "ends")?,
        );
        self.write(py, &keys, &starts, &ends, None)
    }

    fn fetch_session_batch(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        starts: &Bound<'_, PyAny>,
        ends: &Bound<'_, PyAny>,
    ) -> PyResult<ArrowArray> {
        let keys = Column::import(keys, "keys")?;
        let (starts, ends) = (
            Column::import(starts, "starts")?,
            Column::import(ends, "ends")?,
        );
        let values = run(py, self.view.owner(), || {
            keys.same_rows(&starts)?;
            keys.same_rows(&ends)?;
            let (keys, starts, ends) = (keys.bytes()?, starts.times()?, ends.times()?);
            let keys = keys.keys()?;
            let sessions: Vec<_> = keys
                .iter()
                .zip(starts)
                .zip(ends)
                .map(|((key, start), end)| WindowedKey { key, start, end })
                .collect();
            let mut places = Places::new(sessions.len());
            self.view.read_batch(|tx| {
                self.store.fetch_batch(tx, &sessions, |row, value| {
                    places.put(row, value.map(plain))
                })
            })?;
            places.finish()
        })?;
        Ok(ArrowArray::new(values))
    }

    fn find_batch(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        earliest_ends: &Bound<'_, PyAny>,
        latest_starts: &Bound<'_, PyAny>,
    ) -> PyResult<ArrowBatch> {
        let keys = Column::import(keys, "keys")?;
        let (ends, starts) = (
            Column::import(earliest_ends, "earliest_ends")?,
            Column::import(latest_starts, "latest_starts")?,
        );
        let batch = run(py, self.view.owner(), || {
            keys.same_rows(&ends)?;
            keys.same_rows(&starts)?;
            let (keys, ends, starts) = (keys.bytes()?, ends.times()?, starts.times()?);
            let keys = keys.keys()?;
            let mut columns = WindowedColumns::of_batch(SESSION, false);
            let mut append = |row: usize, session: WindowedKey<'_>, value: &[u8]| {
                columns.append(row, session, plain(value))
            };
            self.view.read_batch(|tx| {
                self.store
                    .find_batch(tx, &keys, &ends, &starts, &mut append)
            })?;
            columns.finish()
        })?;
        Ok(ArrowBatch::new(batch))
    }

    fn find_batches(
        &self,
        py: Python<'_>,
        wanted: Selection,
        batch_rows: i64,
    ) -> PyResult<ArrowReader> {
        let rows = self::batch_rows(py, batch_rows)?;
        let mut scan = self.scan(py, &wanted)?;
        let mut next = move || {
            let mut columns = WindowedColumns::of_scan(SESSION, false);
            scan.for_each(&mut |session, value| {
                columns.append(0, session, plain(value));
                !columns.is_full(rows)
            })?;
            columns.finish_scan()
        };
        let schema = WindowedColumns::of_scan(SESSION, false).schema();
        Ok(ArrowReader::new(
            schema,
            Box::new(std::iter::from_fn(move || next().transpose())),
        ))
    }
}

fn plain(value: &[u8]) -> Stamped<'_> {
    Stamped {
        value,
        timestamp: NO_TIMESTAMP,
    }
}

/// Rows of a session and its value.
#[pyclass(frozen, module = "holdfast._core")]
pub struct SessionIterator {
    rows: Rows<(i64, i64)>,
}

impl SessionIterator {
    fn new(db: Arc<OpenDatabase>, mut scan: SessionScan) -> Self {
        let source = move |chunk: &mut Chunk<_>| {
            scan.for_each(&mut |session, value| {
                chunk.push(session.key, value, (session.start.0, session.end.0))
            })?;
            Ok(())
        };
        Self {
            rows: Rows::new(db, Box::new(source)),
        }
    }
}

#[pymethods]
impl SessionIterator {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Option<(PythonKey<'py>, Bound<'py, PyBytes>)>> {
        Ok(self
            .rows
            .next(py)?
            .map(|(key, value, (start, end))| ((key, start, end), value)))
    }

    fn peek_next_key<'py>(&self, py: Python<'py>) -> PyResult<PythonKey<'py>> {
        let (key, (start, end)) = self.rows.peek(py)?;
        Ok((key, start, end))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.rows.close(py)
    }
}
