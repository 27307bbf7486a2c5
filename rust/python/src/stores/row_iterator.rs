//! Returns the rows of a scan one at a time. The iterators of all stores share this code.

use crate::open_database::OpenDatabase;
use crate::run::{drop_without_gil, run, run_attached};
use holdfast_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ops::Range;
use std::sync::Arc;

/// Rows of the first chunk. Each further chunk has twice as many: a short range reads few unused
/// rows, and a long one rarely releases the GIL.
const FIRST_CHUNK_ROWS: usize = 8;
/// The largest number of rows in a chunk.
const MAX_CHUNK_ROWS: usize = 512;
/// Bytes after which a chunk ends.
const CHUNK_BYTES: usize = 64 << 10;

/// A row for Python: key, value and the rest.
type PyRow<'py, T> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, T);

/// A scan of a store's rows.
pub trait RowScan: Send + 'static {
    /// What a row has besides its key and value.
    type Rest: Copy + Send;

    /// Adds the next rows to a chunk until it is full; adds none at the end.
    fn read(&mut self, chunk: &mut RowChunk<Self::Rest>) -> Result<()>;
}

/// Rows of a scan that were read in one call. Releasing the GIL for each row would cost more than
/// reading it.
pub struct RowChunk<T> {
    data: Vec<u8>,
    rows: Vec<(Range<usize>, Range<usize>, T)>,
    max_rows: usize,
    /// The position of the current row.
    at: usize,
}

impl<T: Copy> RowChunk<T> {
    /// Adds a row; false once the chunk is full.
    pub fn push(&mut self, key: &[u8], value: &[u8], rest: T) -> bool {
        let start = self.data.len();
        self.data.extend_from_slice(key);
        let middle = self.data.len();
        self.data.extend_from_slice(value);
        self.rows
            .push((start..middle, middle..self.data.len(), rest));
        self.rows.len() < self.max_rows && self.data.len() < CHUNK_BYTES
    }

    fn current(&self) -> Option<(&[u8], &[u8], T)> {
        let (key, value, rest) = self.rows.get(self.at)?;
        Some((&self.data[key.clone()], &self.data[value.clone()], *rest))
    }

    fn clear(&mut self) {
        self.data.clear();
        self.rows.clear();
        self.at = 0;
    }
}

/// The rows of a scan, read in chunks. Each Python class converts a row in its own way.
pub struct RowIterator<S: RowScan> {
    db: Arc<OpenDatabase>,
    rows: Mutex<RowBuffer<S>>,
}

struct RowBuffer<S: RowScan> {
    source: RowSource<S>,
    chunk: RowChunk<S::Rest>,
}

enum RowSource<S> {
    Open(S),
    /// All rows were read. The scan is dropped, and with it its pinned view.
    Exhausted,
    Closed,
}

impl<S: RowScan> RowBuffer<S> {
    /// Reads the next chunk if no row is left in this one.
    fn fill(&mut self) -> Result<()> {
        let Self { source, chunk } = self;
        let scan = match source {
            RowSource::Open(scan) => scan,
            RowSource::Exhausted => return Ok(()),
            RowSource::Closed => {
                return Err(Error::new(
                    ErrorKind::StoreClosed,
                    "this iterator is closed; open another",
                ));
            }
        };
        if chunk.current().is_none() {
            chunk.clear();
            if let Err(error) = scan.read(chunk) {
                chunk.clear();
                // The scan may have skipped rows that were not returned.
                *source = RowSource::Closed;
                return Err(error);
            }
            chunk.max_rows = (chunk.max_rows * 2).min(MAX_CHUNK_ROWS);
            if chunk.current().is_none() {
                *source = RowSource::Exhausted;
            }
        }
        Ok(())
    }
}

impl<S: RowScan> RowIterator<S> {
    /// Returns the rows of a scan.
    pub fn new(db: Arc<OpenDatabase>, scan: S) -> Self {
        let chunk = RowChunk {
            data: Vec::new(),
            rows: Vec::new(),
            max_rows: FIRST_CHUNK_ROWS,
            at: 0,
        };
        Self {
            db,
            rows: Mutex::new(RowBuffer {
                source: RowSource::Open(scan),
                chunk,
            }),
        }
    }

    /// Calls `show` with the current row and moves on by `step` rows; `None` at the end.
    ///
    /// The rows are locked during the call, so `show` must not run Python code.
    fn show<R>(
        &self,
        py: Python<'_>,
        step: usize,
        show: impl FnOnce(&[u8], &[u8], S::Rest) -> R,
    ) -> PyResult<Option<R>> {
        run_attached(py, || self.db.process().check())?;
        loop {
            // This never waits for the lock with the GIL: another thread may hold the lock and wait
            // for the GIL, to log.
            if self.db.is_open()
                && let Some(mut rows) = self.rows.try_lock()
                && let Some((key, value, rest)) = rows.chunk.current()
            {
                let shown = show(key, value, rest);
                rows.chunk.at += step;
                return Ok(Some(shown));
            }
            let more = run(py, self.db.process(), || {
                self.db.check_open()?;
                let mut rows = self.rows.lock();
                rows.fill()?;
                Ok(rows.chunk.current().is_some())
            })?;
            if !more {
                return Ok(None);
            }
        }
    }

    /// Returns the next row; `None` at the end.
    pub fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<PyRow<'py, S::Rest>>> {
        self.show(py, 1, |key, value, rest| {
            (PyBytes::new(py, key), PyBytes::new(py, value), rest)
        })
    }

    /// Returns the next row's key; `StopIteration` at the end.
    pub fn peek_next_key<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(self.peek(py)?.0)
    }

    /// Returns the next row's key and the rest of the row; `StopIteration` at the end.
    pub fn peek<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyBytes>, S::Rest)> {
        self.show(py, 0, |key, _, rest| (PyBytes::new(py, key), rest))?
            .ok_or_else(|| PyStopIteration::new_err(()))
    }

    /// Drops the scan and its pinned view.
    pub fn close(&self, py: Python<'_>) -> PyResult<()> {
        run(py, self.db.process(), || {
            let mut rows = self.rows.lock();
            rows.source = RowSource::Closed;
            rows.chunk.clear();
            Ok(())
        })
    }
}

impl<S: RowScan> Drop for RowIterator<S> {
    fn drop(&mut self) {
        let rows = self.rows.get_mut();
        if matches!(rows.source, RowSource::Open(_)) {
            // The scan may hold the last reference to files of a spilled transaction.
            let source = std::mem::replace(&mut rows.source, RowSource::Closed);
            drop_without_gil(|| drop(source));
        }
    }
}
