//! Rows one at a time, with a look at the next key.

use crate::run::{Owner, run};
use holdfast_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A key and what is found there.
type Row<R> = (Vec<u8>, R);

/// Where rows come from.
type Source<R> = Box<dyn FnMut() -> Result<Option<Row<R>>> + Send>;

/// What the iterators of all stores have in common; their classes differ in the rows that they show.
pub struct Rows<R> {
    owner: Owner,
    state: Mutex<State<R>>,
}

struct State<R> {
    /// Nothing once it is closed.
    source: Option<Source<R>>,
    /// A row that was looked at before its turn.
    peeked: Option<Row<R>>,
}

impl<R> State<R> {
    fn pull(&mut self) -> Result<Option<Row<R>>> {
        match &mut self.source {
            Some(source) => source(),
            None => Err(Error::new(ErrorKind::StoreClosed, "this iterator is closed; open another")),
        }
    }
}

impl<R: Send> Rows<R> {
    /// Rows of a source.
    pub fn new(owner: Owner, source: Source<R>) -> Self {
        Self { owner, state: Mutex::new(State { source: Some(source), peeked: None }) }
    }

    /// The next row, nothing at the end.
    pub fn next(&self, py: Python<'_>) -> PyResult<Option<Row<R>>> {
        run(py, self.owner, || {
            let mut state = self.state.lock();
            match state.peeked.take() {
                Some(row) => Ok(Some(row)),
                None => state.pull(),
            }
        })
    }

    /// The next row's key; `StopIteration` at the end.
    pub fn peek_next_key<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let key = run(py, self.owner, || {
            let mut state = self.state.lock();
            if state.peeked.is_none() {
                state.peeked = state.pull()?;
            }
            Ok(state.peeked.as_ref().map(|(key, _)| key.clone()))
        })?;
        key.map(|key| PyBytes::new(py, &key)).ok_or_else(|| PyStopIteration::new_err(()))
    }

    /// Lets the snapshot go.
    pub fn close(&self, py: Python<'_>) -> PyResult<()> {
        run(py, self.owner, || {
            *self.state.lock() = State { source: None, peeked: None };
            Ok(())
        })
    }
}
