//! The window store, with timestamps or without. Each Python class calls the methods of its kind.

use crate::arrow::column::Column;
use crate::arrow::export::{ArrowArray, ArrowBatch, ArrowReader, batch_rows};
use crate::stores::row_iterator::RowIterator;
use crate::stores::store_handle::StoreHandle;
use crate::stores::timestamped::{StampedValue, to_stamped_value};
use crate::stores::windowed::{self, PyWindowedKey, Selection, WindowedFields, WindowedScan};
use crate::view::InputOffsets;
use holdfast_core::column::{Places, WINDOW};
use holdfast_core::{
    Result, Stamped, Timestamp, WindowPut, WindowScan, WindowStore as Store, WindowedKey,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A window store in one view.
#[pyclass(frozen, module = "holdfast._core")]
pub struct WindowStore {
    handle: StoreHandle<Store>,
}

impl WindowStore {
    /// Wraps a store.
    pub fn new(handle: StoreHandle<Store>) -> Self {
        Self { handle }
    }

    fn scan(
        &self,
        py: Python<'_>,
        (key_from, key_to, from, to, reverse): &Selection,
    ) -> PyResult<WindowScan> {
        let (key_from, key_to) = (key_from.as_deref(), key_to.as_deref());
        let (from, to) = (Timestamp(*from), Timestamp(*to));
        self.handle.read(py, |store, tx| {
            store.fetch_range(tx, key_from, key_to, from, to, *reverse)
        })
    }

    fn fetch_places(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        starts: &Bound<'_, PyAny>,
    ) -> PyResult<Places> {
        let [keys, starts] = Column::import_all([(keys, "keys"), (starts, "window_starts")])?;
        self.handle.run(py, |store, view| {
            keys.same_rows([&starts])?;
            let (keys, starts) = (keys.bytes()?, starts.times()?);
            let keys = keys.keys()?;
            let mut places = Places::new(keys.len());
            view.read_batch(|tx| {
                store.fetch_batch(tx, &keys, &starts, |row, found| places.put(row, found))
            })?;
            Ok(places)
        })
    }
}

fn fields(timestamps: bool) -> WindowedFields {
    WindowedFields {
        names: WINDOW,
        timestamps,
    }
}

#[pymethods]
impl WindowStore {
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
        self.handle.write(py, |store, tx| {
            store.put(tx, put)?;
            Ok(())
        })
    }

    fn fetch<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        start: i64,
    ) -> PyResult<Option<StampedValue<'py>>> {
        let found = self.handle.read(py, |store, tx| {
            store.fetch(tx, key, Timestamp(start), |found| {
                found.map(Stamped::to_owned)
            })
        })?;
        Ok(to_stamped_value(py, found))
    }

    fn fetch_range(&self, py: Python<'_>, wanted: Selection) -> PyResult<WindowIterator> {
        let scan = self.scan(py, &wanted)?;
        Ok(WindowIterator {
            rows: self.handle.rows(scan),
        })
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
        let [keys, values, starts] = Column::import_all([
            (keys, "keys"),
            (values, "values"),
            (window_starts, "window_starts"),
        ])?;
        let timestamps = Column::import_optional(timestamps, "timestamps")?;
        self.handle.run(py, |store, view| {
            keys.same_rows([&values, &starts].into_iter().chain(&timestamps))?;
            let (keys, values, starts) = (keys.bytes()?, values.bytes()?, starts.times()?);
            let timestamps = timestamps.as_ref().map(Column::times).transpose()?;
            let rows = keys.non_null()?.zip(values.iter()).zip(starts).enumerate();
            let puts = rows.map(|(row, ((key, value), start))| WindowPut {
                key,
                value,
                start,
                timestamp: timestamps.as_ref().map(|times| times[row]),
            });
            view.write_batch(|tx| {
                store.put_batch(tx, puts)?;
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
        let values = self.handle.run(py, |_, _| places.finish())?;
        Ok(ArrowArray::new(values))
    }

    fn fetch_stamped_batch(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        window_starts: &Bound<'_, PyAny>,
    ) -> PyResult<ArrowBatch> {
        let places = self.fetch_places(py, keys, window_starts)?;
        let batch = self.handle.run(py, |_, _| places.finish_stamped())?;
        Ok(ArrowBatch::new(batch))
    }

    fn fetch_ranges(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        starts: &Bound<'_, PyAny>,
        ends: &Bound<'_, PyAny>,
        timestamps: bool,
    ) -> PyResult<ArrowBatch> {
        let arguments = [(keys, "keys"), (starts, "starts"), (ends, "ends")];
        windowed::find_batch(
            &self.handle,
            py,
            arguments,
            fields(timestamps),
            |store, tx, ranges, columns| {
                let mut append = |row: usize, window: WindowedKey<'_>, found: Stamped<'_>| {
                    columns.append(row, window, found)
                };
                store.fetch_ranges(tx, ranges.keys, ranges.first, ranges.second, &mut append)
            },
        )
    }

    fn fetch_range_batches(
        &self,
        py: Python<'_>,
        wanted: Selection,
        batch_rows: i64,
        timestamps: bool,
    ) -> PyResult<ArrowReader> {
        let rows = self::batch_rows(py, batch_rows)?;
        let scan = self.scan(py, &wanted)?;
        Ok(windowed::batches(scan, fields(timestamps), rows))
    }
}

impl WindowedScan for WindowScan {
    fn for_each(
        &mut self,
        mut visit: impl FnMut(WindowedKey<'_>, Stamped<'_>) -> bool,
    ) -> Result<()> {
        Self::for_each(self, &mut visit)?;
        Ok(())
    }
}

/// Rows of a windowed key, a value and its timestamp.
#[pyclass(frozen, module = "holdfast._core")]
pub struct WindowIterator {
    rows: RowIterator<WindowScan>,
}

#[pymethods]
impl WindowIterator {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Option<(PyWindowedKey<'py>, Bound<'py, PyBytes>, i64)>> {
        windowed::next(&self.rows, py)
    }

    fn peek_next_key<'py>(&self, py: Python<'py>) -> PyResult<PyWindowedKey<'py>> {
        windowed::peek_next_key(&self.rows, py)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.rows.close(py)
    }
}
