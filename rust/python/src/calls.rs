//! A session whose operator's code runs in this process: what the code asks of its stores, and what
//! it gives.

use crate::arguments::{Argument, arguments};
use crate::error::to_python;
use crate::export::{ArrowBatch, ArrowReader};
use crate::host::over;
use crate::run::{Owner, run};
use arrow_array::RecordBatch;
use holdfast_core::Result;
use holdfast_host::client::Client;
use holdfast_host::net::call::CallMessage;
use holdfast_host::operator::process::OutputDigest;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3_arrow::PyRecordBatch;
use std::sync::Arc;

/// The connection, shared by the session's scans.
struct Shared {
    /// Nothing once the session is done or closed.
    client: Mutex<Option<Client>>,
    /// Scans that were let go before their end: the next call says so.
    closed: Mutex<Vec<String>>,
}

impl Shared {
    fn call(&self, call: CallMessage) -> Result<CallMessage> {
        let closed = std::mem::take(&mut *self.closed.lock());
        let call = if closed.is_empty() {
            call
        } else {
            call.with("close", closed.join(","))
        };
        self.client.lock().as_mut().ok_or_else(over)?.call(&call)
    }
}

/// What answers the calls of a processor.
#[pyclass(frozen, module = "holdfast._core")]
pub struct HostCalls {
    owner: Owner,
    shared: Arc<Shared>,
    output: Mutex<OutputDigest>,
}

impl HostCalls {
    /// For Python; the client's input has ended.
    pub fn new(owner: Owner, client: Client) -> Self {
        let shared = Shared {
            client: Mutex::new(Some(client)),
            closed: Mutex::default(),
        };
        Self {
            owner,
            shared: Arc::new(shared),
            output: Mutex::default(),
        }
    }

    fn ask(&self, py: Python<'_>, call: CallMessage) -> PyResult<CallMessage> {
        run(py, self.owner, || self.shared.call(call))
    }
}

fn message(
    py: Python<'_>,
    store: &str,
    method: &str,
    given: &[Argument<'_>],
) -> PyResult<CallMessage> {
    Ok(CallMessage::of(arguments(py, given)?)
        .with("store", store)
        .with("method", method))
}

#[pymethods]
impl HostCalls {
    fn rows(&self, py: Python<'_>) -> PyResult<(ArrowBatch, Option<i64>)> {
        let answer = self.ask(py, CallMessage::empty().with("method", "rows"))?;
        let time = answer
            .parsed_if_present("time")
            .map_err(|error| to_python(py, &error))?;
        Ok((ArrowBatch::new(answer.batch), time))
    }

    fn is_repeated(&self, py: Python<'_>) -> PyResult<bool> {
        let answer = self.ask(py, CallMessage::empty().with("method", "repeated"))?;
        Ok(answer.attribute("repeated") == Some("true"))
    }

    /// Says what the last task came to, and hears the next one: its name, the function that it is
    /// for, its batch.
    fn next_task(
        &self,
        py: Python<'_>,
        given: Option<PyRecordBatch>,
    ) -> PyResult<(String, Option<usize>, ArrowBatch)> {
        let call = given.map_or_else(CallMessage::empty, |given| {
            CallMessage::of(given.into_inner())
        });
        let answer = self.ask(py, call)?;
        let task = answer
            .parsed("task")
            .map_err(|error| to_python(py, &error))?;
        let aggregate = answer
            .parsed_if_present("aggregate")
            .map_err(|error| to_python(py, &error))?;
        Ok((task, aggregate, ArrowBatch::new(answer.batch)))
    }

    fn call(
        &self,
        py: Python<'_>,
        store: &str,
        method: &str,
        given: Vec<Argument<'_>>,
    ) -> PyResult<ArrowBatch> {
        let answer = self.ask(py, message(py, store, method, &given)?)?;
        Ok(ArrowBatch::new(answer.batch))
    }

    fn scan(
        &self,
        py: Python<'_>,
        store: &str,
        method: &str,
        given: Vec<Argument<'_>>,
        batch_rows: i64,
    ) -> PyResult<ArrowReader> {
        let rows = crate::export::batch_rows(py, batch_rows)?;
        let answer = self.ask(py, message(py, store, method, &given)?.with("rows", rows))?;
        let schema = answer.batch.schema();
        let mut pages = Pages::new(Arc::clone(&self.shared), rows, answer);
        Ok(ArrowReader::new(
            schema,
            Box::new(std::iter::from_fn(move || pages.next().transpose())),
        ))
    }

    fn digest(&self, py: Python<'_>, batch: PyRecordBatch) -> PyResult<()> {
        let batch = batch.into_inner();
        run(py, self.owner, || self.output.lock().add(&batch))
    }

    fn done(&self, py: Python<'_>) -> PyResult<String> {
        run(py, self.owner, || {
            let client = self.shared.client.lock().take().ok_or_else(over)?;
            let output = self.output.lock();
            client.done(output.rows(), &output.digest())
        })
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        run(py, self.owner, || {
            drop(self.shared.client.lock().take());
            Ok(())
        })
    }
}

/// A scan, page by page.
struct Pages {
    shared: Arc<Shared>,
    rows: usize,
    page: Option<RecordBatch>,
    /// What the host knows the scan by; nothing at its end.
    cursor: Option<String>,
}

impl Pages {
    fn new(shared: Arc<Shared>, rows: usize, answer: CallMessage) -> Self {
        let mut pages = Self {
            shared,
            rows,
            page: None,
            cursor: None,
        };
        pages.take(answer);
        pages
    }

    fn take(&mut self, answer: CallMessage) {
        self.cursor = answer.attribute("cursor").map(str::to_owned);
        self.page = Some(answer.batch).filter(|page| page.num_rows() > 0);
    }

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        if self.page.is_none()
            && let Some(cursor) = self.cursor.take()
        {
            let answer = self.shared.call(
                CallMessage::empty()
                    .with("method", "next")
                    .with("cursor", cursor)
                    .with("rows", self.rows),
            )?;
            self.take(answer);
        }
        Ok(self.page.take())
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.shared.closed.lock().extend(self.cursor.take());
    }
}
