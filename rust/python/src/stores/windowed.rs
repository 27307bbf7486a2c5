//! Code that the window store and the session store share, for keys with a start and an end.

use crate::arrow::column::Column;
use crate::arrow::export::{ArrowBatch, ArrowReader};
use crate::stores::row_iterator::{RowChunk, RowIterator, RowScan};
use crate::stores::store_handle::StoreHandle;
use holdfast_core::column::WindowedColumns;
use holdfast_core::{Result, Stamped, Timestamp, Transaction, WindowedKey};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

/// Which rows a scan returns, as Python passes it: first and last key, two times, and whether the
/// order is reversed. The times of windows are the first and the last start, those of sessions the
/// earliest end and the latest start.
pub type Selection = (Option<PyBackedBytes>, Option<PyBackedBytes>, i64, i64, bool);

/// A key, a start and an end for Python.
pub type PyWindowedKey<'py> = (Bound<'py, PyBytes>, i64, i64);

/// A scan of windows or sessions.
pub trait WindowedScan: Send + 'static {
    /// Calls `visit` with the next rows until it returns false or no row is left.
    fn for_each(&mut self, visit: impl FnMut(WindowedKey<'_>, Stamped<'_>) -> bool) -> Result<()>;
}

impl<S: WindowedScan> RowScan for S {
    /// Start, end and timestamp.
    type Rest = (i64, i64, i64);

    fn read(&mut self, chunk: &mut RowChunk<Self::Rest>) -> Result<()> {
        self.for_each(|key, found| {
            chunk.push(
                key.key,
                found.value,
                (key.start.0, key.end.0, found.timestamp.0),
            )
        })
    }
}

/// Returns the next row: key, value and timestamp.
pub fn next<'py, S: WindowedScan>(
    rows: &RowIterator<S>,
    py: Python<'py>,
) -> PyResult<Option<(PyWindowedKey<'py>, Bound<'py, PyBytes>, i64)>> {
    Ok(rows
        .next(py)?
        .map(|(key, value, (start, end, timestamp))| ((key, start, end), value, timestamp)))
}

/// Returns the next row's key.
pub fn peek_next_key<'py, S: WindowedScan>(
    rows: &RowIterator<S>,
    py: Python<'py>,
) -> PyResult<PyWindowedKey<'py>> {
    let (key, (start, end, _)) = rows.peek(py)?;
    Ok((key, start, end))
}

/// The names of the columns of windows or sessions, and whether they have timestamps.
#[derive(Clone, Copy)]
pub struct WindowedFields {
    /// The names of the columns of starts and ends.
    pub names: [&'static str; 2],
    /// Whether there is a column of timestamps.
    pub timestamps: bool,
}

/// Returns the rows of a scan in batches.
pub fn batches(
    mut scan: impl WindowedScan,
    WindowedFields { names, timestamps }: WindowedFields,
    rows: usize,
) -> ArrowReader {
    let schema = WindowedColumns::of_scan(names, timestamps).schema();
    ArrowReader::from_fn(schema, move || {
        let mut columns = WindowedColumns::of_scan(names, timestamps);
        scan.for_each(|key, found| {
            columns.append(0, key, found);
            !columns.is_full(rows)
        })?;
        columns.finish_scan()
    })
}

/// A batch of look-ups: in each row a key and two times.
pub struct WindowedQueries<'a> {
    /// The keys.
    pub keys: &'a [&'a [u8]],
    /// The first time of each row.
    pub first: &'a [Timestamp],
    /// The second time of each row.
    pub second: &'a [Timestamp],
}

/// Runs a batch of look-ups: `find` adds the rows that it finds.
pub fn find_batch<S: Clone + Sync>(
    handle: &StoreHandle<S>,
    py: Python<'_>,
    arguments: [(&Bound<'_, PyAny>, &str); 3],
    WindowedFields { names, timestamps }: WindowedFields,
    find: impl FnOnce(&S, &mut Transaction, WindowedQueries<'_>, &mut WindowedColumns) -> Result<()>
    + Send,
) -> PyResult<ArrowBatch> {
    let [keys, first, second] = Column::import_all(arguments)?;
    let batch = handle.run(py, |store, view| {
        keys.same_rows([&first, &second])?;
        let (keys, first, second) = (keys.bytes()?, first.times()?, second.times()?);
        let keys = keys.keys()?;
        let queries = WindowedQueries {
            keys: &keys,
            first: &first,
            second: &second,
        };
        let mut found = WindowedColumns::of_batch(names, timestamps);
        view.read_batch(|tx| find(store, tx, queries, &mut found))?;
        found.finish()
    })?;
    Ok(ArrowBatch::new(batch))
}
