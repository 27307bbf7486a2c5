//! Rows one at a time, with a look at the next key.

use crate::error::to_python;
use crate::run::run;
use crate::view::OpenDatabase;
use holdfast_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ops::Range;
use std::sync::Arc;

/// Rows of the first chunk; each chunk after it has twice as many, so that a short range reads
/// little in vain and a long one seldom leaves Python.
const FIRST_ROWS: usize = 8;
/// No chunk has more rows,
const MOST_ROWS: usize = 512;
/// or goes on after so many bytes.
const CHUNK_BYTES: usize = 64 << 10;

/// A row as Python sees it: key, value and the rest.
type Row<'py, T> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, T);

/// Fills a chunk with the rows that follow; leaves it empty at the end.
pub type Source<T> = Box<dyn FnMut(&mut Chunk<T>) -> Result<()> + Send>;

/// Some rows of a scan, read at once: letting go of the GIL for each would cost more than the row.
/// `T` is what a row has besides its key and value.
pub struct Chunk<T> {
    data: Vec<u8>,
    rows: Vec<(Range<usize>, Range<usize>, T)>,
    wanted: usize,
    /// The row whose turn it is.
    at: usize,
}

impl<T: Copy> Chunk<T> {
    /// Adds a row; false when there is room for no other.
    pub fn push(&mut self, key: &[u8], value: &[u8], rest: T) -> bool {
        let start = self.data.len();
        self.data.extend_from_slice(key);
        let middle = self.data.len();
        self.data.extend_from_slice(value);
        self.rows
            .push((start..middle, middle..self.data.len(), rest));
        self.rows.len() < self.wanted && self.data.len() < CHUNK_BYTES
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

/// What the iterators of all stores have in common; their classes differ in the rows that they
/// show.
pub struct Rows<T> {
    db: Arc<OpenDatabase>,
    state: Mutex<State<T>>,
}

struct State<T> {
    reading: Reading<T>,
    chunk: Chunk<T>,
}

enum Reading<T> {
    From(Source<T>),
    /// All rows were read: the source, and with it the snapshot, is gone already.
    Ended,
    Closed,
}

impl<T: Copy> State<T> {
    /// Reads on if all rows were handed out.
    fn fill(&mut self) -> Result<()> {
        let Self { reading, chunk } = self;
        let source = match reading {
            Reading::From(source) => source,
            Reading::Ended => return Ok(()),
            Reading::Closed => {
                return Err(Error::new(
                    ErrorKind::StoreClosed,
                    "this iterator is closed; open another",
                ));
            }
        };
        if chunk.current().is_none() {
            chunk.clear();
            if let Err(error) = source(chunk) {
                chunk.clear();
                // The source may stand behind rows that nobody has seen.
                *reading = Reading::Closed;
                return Err(error);
            }
            chunk.wanted = (chunk.wanted * 2).min(MOST_ROWS);
            if chunk.current().is_none() {
                *reading = Reading::Ended;
            }
        }
        Ok(())
    }
}

impl<T: Copy + Send> Rows<T> {
    /// Rows of a source.
    pub fn new(db: Arc<OpenDatabase>, source: Source<T>) -> Self {
        let chunk = Chunk {
            data: Vec::new(),
            rows: Vec::new(),
            wanted: FIRST_ROWS,
            at: 0,
        };
        Self {
            db,
            state: Mutex::new(State {
                reading: Reading::From(source),
                chunk,
            }),
        }
    }

    /// Hands the current row to `show`, after which the next one is current; nothing at the end.
    /// `show` makes bytes and nothing that could run Python code, since the rows are locked.
    fn show<R>(
        &self,
        py: Python<'_>,
        step: usize,
        show: impl FnOnce(&[u8], &[u8], T) -> R,
    ) -> PyResult<Option<R>> {
        self.db
            .owner()
            .check()
            .map_err(|error| to_python(py, &error))?;
        loop {
            // Never waits with the GIL: another thread may hold the rows and wait for the GIL, to
            // log.
            if self.db.is_open()
                && let Some(mut state) = self.state.try_lock()
                && let Some((key, value, rest)) = state.chunk.current()
            {
                let shown = show(key, value, rest);
                state.chunk.at += step;
                return Ok(Some(shown));
            }
            let more = run(py, self.db.owner(), || {
                self.db.check_open()?;
                let mut state = self.state.lock();
                state.fill()?;
                Ok(state.chunk.current().is_some())
            })?;
            if !more {
                return Ok(None);
            }
        }
    }

    /// The next row, nothing at the end.
    pub fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Row<'py, T>>> {
        self.show(py, 1, |key, value, rest| {
            (PyBytes::new(py, key), PyBytes::new(py, value), rest)
        })
    }

    /// The next row's key; `StopIteration` at the end.
    pub fn peek_next_key<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(self.peek(py)?.0)
    }

    /// The next row's key and what belongs to it; `StopIteration` at the end.
    pub fn peek<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyBytes>, T)> {
        self.show(py, 0, |key, _, rest| (PyBytes::new(py, key), rest))?
            .ok_or_else(|| PyStopIteration::new_err(()))
    }

    /// Lets the snapshot go.
    pub fn close(&self, py: Python<'_>) -> PyResult<()> {
        run(py, self.db.owner(), || {
            let mut state = self.state.lock();
            state.reading = Reading::Closed;
            state.chunk.clear();
            Ok(())
        })
    }
}
