//! The session store.

use crate::arrow::column::Column;
use crate::arrow::export::{ArrowArray, ArrowBatch, ArrowReader, batch_rows};
use crate::stores::row_iterator::RowIterator;
use crate::stores::store_handle::StoreHandle;
use crate::stores::windowed::{self, PyWindowedKey, Selection, WindowedFields, WindowedScan};
use crate::view::InputOffsets;
use holdfast_core::column::{Places, SESSION};
use holdfast_core::{
    NO_TIMESTAMP, Result, SessionQuery, SessionScan, SessionStore as Store, Stamped, Timestamp,
    WindowedKey,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

const FIELDS: WindowedFields = WindowedFields {
    names: SESSION,
    timestamps: false,
};

/// A session store in one view.
#[pyclass(frozen, module = "holdfast._core")]
pub struct SessionStore {
    handle: StoreHandle<Store>,
}

impl SessionStore {
    /// Wraps a store.
    pub fn new(handle: StoreHandle<Store>) -> Self {
        Self { handle }
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
        self.handle
            .read(py, |store, tx| store.find_sessions(tx, query))
    }

    /// Puts the sessions of a batch, or removes them if there are no values. The whole batch is
    /// checked before a row is staged.
    fn write(
        &self,
        py: Python<'_>,
        [keys, starts, ends]: &[Column<'_>; 3],
        values: Option<&Column<'_>>,
    ) -> PyResult<()> {
        self.handle.run(py, |store, view| {
            keys.same_rows([starts, ends].into_iter().chain(values))?;
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
            store.check(&puts)?;
            view.write_batch(|tx| store.put_batch(tx, &puts))
        })
    }
}

fn session(key: &[u8], start: i64, end: i64) -> WindowedKey<'_> {
    WindowedKey {
        key,
        start: Timestamp(start),
        end: Timestamp(end),
    }
}

fn without_timestamp(value: &[u8]) -> Stamped<'_> {
    Stamped {
        value,
        timestamp: NO_TIMESTAMP,
    }
}

#[pymethods]
impl SessionStore {
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

    #[pyo3(signature = (key, start, end, value))]
    fn put(
        &self,
        py: Python<'_>,
        key: &[u8],
        start: i64,
        end: i64,
        value: Option<&[u8]>,
    ) -> PyResult<()> {
        let session = session(key, start, end);
        self.handle.run(py, |store, view| {
            store.check(&[(session, value)])?;
            view.write(|tx| store.put(tx, session, value))
        })
    }

    fn fetch_session<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        start: i64,
        end: i64,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let session = session(key, start, end);
        let found = self.handle.read(py, |store, tx| {
            store.fetch_session(tx, session, |found| found.map(<[u8]>::to_vec))
        })?;
        Ok(found.map(|value| PyBytes::new(py, &value)))
    }

    fn find_sessions(&self, py: Python<'_>, wanted: Selection) -> PyResult<SessionIterator> {
        let scan = self.scan(py, &wanted)?;
        Ok(SessionIterator {
            rows: self.handle.rows(scan),
        })
    }

    fn put_batch(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        starts: &Bound<'_, PyAny>,
        ends: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let [keys, values, starts, ends] = Column::import_all([
            (keys, "keys"),
            (values, "values"),
            (starts, "starts"),
            (ends, "ends"),
        ])?;
        self.write(py, &[keys, starts, ends], Some(&values))
    }

    fn remove_batch(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        starts: &Bound<'_, PyAny>,
        ends: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let sessions = Column::import_all([(keys, "keys"), (starts, "starts"), (ends, "ends")])?;
        self.write(py, &sessions, None)
    }

    fn fetch_session_batch(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        starts: &Bound<'_, PyAny>,
        ends: &Bound<'_, PyAny>,
    ) -> PyResult<ArrowArray> {
        let [keys, starts, ends] =
            Column::import_all([(keys, "keys"), (starts, "starts"), (ends, "ends")])?;
        let values = self.handle.run(py, |store, view| {
            keys.same_rows([&starts, &ends])?;
            let (keys, starts, ends) = (keys.bytes()?, starts.times()?, ends.times()?);
            let keys = keys.keys()?;
            let sessions: Vec<_> = keys
                .iter()
                .zip(starts)
                .zip(ends)
                .map(|((key, start), end)| WindowedKey { key, start, end })
                .collect();
            let mut places = Places::new(sessions.len());
            view.read_batch(|tx| {
                store.fetch_batch(tx, &sessions, |row, value| {
                    places.put(row, value.map(without_timestamp))
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
        let arguments = [
            (keys, "keys"),
            (earliest_ends, "earliest_ends"),
            (latest_starts, "latest_starts"),
        ];
        windowed::find_batch(
            &self.handle,
            py,
            arguments,
            FIELDS,
            |store, tx, queries, columns| {
                let mut append = |row: usize, session: WindowedKey<'_>, value: &[u8]| {
                    columns.append(row, session, without_timestamp(value))
                };
                store.find_batch(tx, queries.keys, queries.first, queries.second, &mut append)
            },
        )
    }

    fn find_batches(
        &self,
        py: Python<'_>,
        wanted: Selection,
        batch_rows: i64,
    ) -> PyResult<ArrowReader> {
        let rows = self::batch_rows(py, batch_rows)?;
        let scan = self.scan(py, &wanted)?;
        Ok(windowed::batches(scan, FIELDS, rows))
    }
}

impl WindowedScan for SessionScan {
    fn for_each(
        &mut self,
        mut visit: impl FnMut(WindowedKey<'_>, Stamped<'_>) -> bool,
    ) -> Result<()> {
        Self::for_each(self, &mut |session, value| {
            visit(session, without_timestamp(value))
        })?;
        Ok(())
    }
}

/// Rows of a session and its value.
#[pyclass(frozen, module = "holdfast._core")]
pub struct SessionIterator {
    rows: RowIterator<SessionScan>,
}

#[pymethods]
impl SessionIterator {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Option<(PyWindowedKey<'py>, Bound<'py, PyBytes>)>> {
        Ok(windowed::next(&self.rows, py)?.map(|(session, value, _)| (session, value)))
    }

    fn peek_next_key<'py>(&self, py: Python<'py>) -> PyResult<PyWindowedKey<'py>> {
        windowed::peek_next_key(&self.rows, py)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.rows.close(py)
    }
}
