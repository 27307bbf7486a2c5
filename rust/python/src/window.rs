//! The window store, with timestamps or without: the Python classes know which, and ask for what
//! they show.

use crate::columns::Column;
use crate::error::to_python;
use crate::export::{ArrowArray, ArrowBatch, ArrowReader, batch_rows};
use crate::iterator::{Chunk, Rows};
use crate::run::run;
use crate::timestamped::{Value, value};
use crate::view::{Offsets, OpenDatabase, View};
use holdfast_core::column::{Places, WINDOW, WindowedColumns};
use holdfast_core::{Stamped, Timestamp, Transaction, WindowPut, WindowScan, WindowStore as Store};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use std::sync::Arc;

/// A window store as one view sees it.
#[pyclass(frozen, module = "holdfast._core")]
pub struct WindowStore {
    store: Store,
    view: View,
}

impl WindowStore {
    /// For Python.
    pub fn new(store: Store, view: View) -> Self {
        Self { store, view }
    }

    fn scan(
        &self,
        py: Python<'_>,
        (key_from, key_to, from, to, reverse): &Selection,
    ) -> PyResult<WindowScan> {
        let (from, to) = (Timestamp(*from), Timestamp(*to));
        run(py, self.view.owner(), || {
            self.view.read(|tx| {
                self.store.fetch_range(
                    tx,
                    key_from.as_deref(),
                    key_to.as_deref(),
                    from,
                    to,
                    *reverse,
                )
            })
        })
    }

    fn fetch_places(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        starts: &Bound<'_, PyAny>,
    ) -> PyResult<Places> {
        let (keys, starts) = (
            Column::import(keys, "keys")?,
            Column::import(starts, "window_starts")?,
        );
        run(py, self.view.owner(), || {
            keys.same_rows(&starts)?;
            let (keys, starts) = (keys.bytes()?, starts.times()?);
            let keys = keys.keys()?;
            let mut places = Places::new(keys.len());
            self.view.read_batch(|tx| {
                self.store
                    .fetch_batch(tx, &keys, &starts, |row, found| places.put(row, found))
            })?;
            Ok(places)
        })
    }
}

/// Which rows a scan is to show, as Python says it: first and last key, two times, backward. Of
/// windows the times are first and last start, of sessions earliest end and latest start.
pub type Selection = (Option<PyBackedBytes>, Option<PyBackedBytes>, i64, i64, bool);

#[pymethods]
impl WindowStore {
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

    #[pyo3(signature = (key, value, start, timestamp))]
    fn put(
        &self,
        py: Python<'_>,
        key: &[u8],
        value: Option<&[u8]>,
        start: i64,
        timestamp: Option<i64>,
    ) -> PyResult<()> {
        let put = WindowPut {
            key,
            value,
            start: Timestamp(start),
            timestamp: timestamp.map(Timestamp),
        };
        run(py, self.view.owner(), || {
            self.view.write(|tx| {
                self.store.put(tx, put)?;
                Ok(())
            })
        })
    }

    fn fetch<'py>(&self, py: Python<'py>, key: &[u8], start: i64) -> PyResult<Option<Value<'py>>> {
        let fetch = |tx: &mut Transaction| {
            self.store.fetch(tx, key, Timestamp(start), |found| {
                found.map(Stamped::to_owned)
            })
        };
        Ok(value(
            py,
            run(py, self.view.owner(), || self.view.read(fetch))?,
        ))
    }

    fn fetch_range(&self, py: Python<'_>, wanted: Selection) -> PyResult<WindowIterator> {
        Ok(WindowIterator::new(self.view.db(), self.scan(py, &wanted)?))
    }

    #[pyo3(signature = (keys, values, window_starts, timestamps))]
    fn put_batch(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        window_starts: &Bound<'_, PyAny>,
        timestamps: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (keys, values) = (
            Column::import(keys, "keys")?,
            Column::import(values, "values")?,
        );
        let starts = Column::import(window_starts, "window_starts")?;
        let timestamps = timestamps
            .map(|timestamps| Column::import(timestamps, "timestamps"))
            .transpose()?;
        run(py, self.view.owner(), || {
            for column in [Some(&values), Some(&starts), timestamps.as_ref()]
                .into_iter()
                .flatten()
            {
                keys.same_rows(column)?;
            }
            let (keys, values, starts) = (keys.bytes()?, values.bytes()?, starts.times()?);
            let timestamps = timestamps.as_ref().map(Column::times).transpose()?;
            keys.check_keys()?;
            let puts = keys
                .iter()
                .flatten()
                .zip(values.iter())
                .zip(starts)
                .enumerate()
                .map(|(row, ((key, value), start))| {
                    let timestamp = timestamps.as_ref().map(|times| times[row]);
                    WindowPut {
                        key,
                        value,
                        start,
                        timestamp,
                    }
                });
            self.view.write_batch(|tx| {
                self.store.put_batch(tx, puts)?;
                Ok(())
            })
        })
    }

    fn fetch_batch(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        window_starts: &Bound<'_, PyAny>,
    ) -> PyResult<ArrowArray> {
        let places = self.fetch_places(py, keys, window_starts)?;
        Ok(ArrowArray::new(run(py, self.view.owner(), || {
            places.finish()
        })?))
    }

    fn fetch_stamped_batch(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        window_starts: &Bound<'_, PyAny>,
    ) -> PyResult<ArrowBatch> {
        let places = self.fetch_places(py, keys, window_starts)?;
        Ok(ArrowBatch::new(run(py, self.view.owner(), || {
            places.finish_stamped()
        })?))
    }

    fn fetch_ranges(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        starts: &Bound<'_, PyAny>,
        ends: &Bound<'_, PyAny>,
        timestamps: bool,
    ) -> PyResult<ArrowBatch> {
        let keys = Column::import(keys, "keys")?;
        let (starts, ends) = (
            Column::import(starts, "starts")?,
            Column::import(ends, "ends")?,
        );
        let batch = run(py, self.view.owner(), || {
            keys.same_rows(&starts)?;
            keys.same_rows(&ends)?;
            let (keys, starts, ends) = (keys.bytes()?, starts.times()?, ends.times()?);
            let keys = keys.keys()?;
            let mut columns = WindowedColumns::of_batch(WINDOW, timestamps);
            self.view.read_batch(|tx| {
                self.store
                    .fetch_ranges(tx, &keys, &starts, &ends, &mut |row, window, found| {
                        columns.append(row, window, found)
                    })
            })?;
            columns.finish()
        })?;
        Ok(ArrowBatch::new(batch))
    }

    fn fetch_range_batches(
        &self,
        py: Python<'_>,
        wanted: Selection,
        batch_rows: i64,
        timestamps: bool,
    ) -> PyResult<ArrowReader> {
        let rows = self::batch_rows(py, batch_rows)?;
        let mut scan = self.scan(py, &wanted)?;
        let mut next = move || {
            let mut columns = WindowedColumns::of_scan(WINDOW, timestamps);
            scan.for_each(&mut |window, found| {
                columns.append(0, window, found);
                !columns.is_full(rows)
            })?;
            columns.finish_scan()
        };
        let schema = WindowedColumns::of_scan(WINDOW, timestamps).schema();
        Ok(ArrowReader::new(
            schema,
            Box::new(std::iter::from_fn(move || next().transpose())),
        ))
    }
}

/// A key with two times as Python sees it.
pub type PythonKey<'py> = (Bound<'py, PyBytes>, i64, i64);

/// Rows of a windowed key, a value and its timestamp.
#[pyclass(frozen, module = "holdfast._core")]
pub struct WindowIterator {
    rows: Rows<(i64, i64, i64)>,
}

impl WindowIterator {
    fn new(db: Arc<OpenDatabase>, mut scan: WindowScan) -> Self {
        let source = move |chunk: &mut Chunk<_>| {
            scan.for_each(&mut |window, found| {
                chunk.push(
                    window.key,
                    found.value,
                    (window.start.0, window.end.0, found.timestamp.0),
                )
            })?;
            Ok(())
        };
        Self {
            rows: Rows::new(db, Box::new(source)),
        }
    }
}

#[pymethods]
impl WindowIterator {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Option<(PythonKey<'py>, Bound<'py, PyBytes>, i64)>> {
        Ok(self
            .rows
            .next(py)?
            .map(|(key, value, (start, end, timestamp))| ((key, start, end), value, timestamp)))
    }

    fn peek_next_key<'py>(&self, py: Python<'py>) -> PyResult<PythonKey<'py>> {
        let (key, (start, end, _)) = self.rows.peek(py)?;
        Ok((key, start, end))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.rows.close(py)
    }
}
