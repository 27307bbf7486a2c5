//! A session whose operator's code runs in this process: the calls of its stores, and its output.

use crate::arrow::export::{ArrowBatch, ArrowReader, batch_rows};
use crate::host::call_argument::{CallArgument, call_batch};
use crate::run::{run, run_attached};
use arrow_array::RecordBatch;
use holdfast_core::{Error, ErrorKind, Process, Result};
use holdfast_host::client::Client;
use holdfast_host::net::call::CallMessage;
use holdfast_host::operator::process::OutputDigest;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3_arrow::PyRecordBatch;
use std::sync::Arc;

/// The error of every call once a session has ended.
pub fn session_ended() -> Error {
    Error::new(
        ErrorKind::InvalidState,
        "this session is finished or closed; connect again",
    )
}

/// The connection, which a session and its scans share.
struct SharedClient {
    /// `None` once the session is finished or closed.
    client: Mutex<Option<Client>>,
    /// The cursors of scans that were dropped before their end. The next call closes them at the
    /// host.
    dropped_cursors: Mutex<Vec<String>>,
}

impl SharedClient {
    fn call(&self, call: CallMessage) -> Result<CallMessage> {
        let dropped = std::mem::take(&mut *self.dropped_cursors.lock());
        let call = if dropped.is_empty() {
            call
        } else {
            call.with("close", dropped.join(","))
        };
        let mut client = self.client.lock();
        client.as_mut().ok_or_else(session_ended)?.call(&call)
    }
}

/// The session that answers the calls of a processor.
#[pyclass(frozen, module = "holdfast._core")]
pub struct HostCalls {
    process: Process,
    shared: Arc<SharedClient>,
    output: Mutex<OutputDigest>,
}

impl HostCalls {
    /// Wraps a client whose input has ended.
    pub fn new(process: Process, client: Client) -> Self {
        let shared = SharedClient {
            client: Mutex::new(Some(client)),
            dropped_cursors: Mutex::default(),
        };
        Self {
            process,
            shared: Arc::new(shared),
            output: Mutex::default(),
        }
    }

    fn send(&self, py: Python<'_>, call: CallMessage) -> PyResult<CallMessage> {
        run(py, self.process, || self.shared.call(call))
    }
}

fn message(
    py: Python<'_>,
    store: &str,
    method: &str,
    given: &[CallArgument<'_>],
) -> PyResult<CallMessage> {
    Ok(CallMessage::of(call_batch(py, given)?)
        .with("store", store)
        .with("method", method))
}

#[pymethods]
impl HostCalls {
    fn rows(&self, py: Python<'_>) -> PyResult<(ArrowBatch, Option<i64>)> {
        let answer = self.send(py, CallMessage::empty().with("method", "rows"))?;
        let time = run_attached(py, || answer.parsed_if_present("time"))?;
        Ok((ArrowBatch::new(answer.batch), time))
    }

    fn is_repeated(&self, py: Python<'_>) -> PyResult<bool> {
        let answer = self.send(py, CallMessage::empty().with("method", "repeated"))?;
        Ok(answer.attribute("repeated") == Some("true"))
    }

    /// Sends the result of an aggregation's last task and returns the next task: its name, the
    /// aggregate that it is for, and its batch.
    fn next_task(
        &self,
        py: Python<'_>,
        given: Option<PyRecordBatch>,
    ) -> PyResult<(String, Option<usize>, ArrowBatch)> {
        let call = given.map_or_else(CallMessage::empty, |given| {
            CallMessage::of(given.into_inner())
        });
        let answer = self.send(py, call)?;
        let task = run_attached(py, || answer.parsed("task"))?;
        let aggregate = run_attached(py, || answer.parsed_if_present("aggregate"))?;
        Ok((task, aggregate, ArrowBatch::new(answer.batch)))
    }

    fn call(
        &self,
        py: Python<'_>,
        store: &str,
        method: &str,
        given: Vec<CallArgument<'_>>,
    ) -> PyResult<ArrowBatch> {
        let answer = self.send(py, message(py, store, method, &given)?)?;
        Ok(ArrowBatch::new(answer.batch))
    }

    fn scan(
        &self,
        py: Python<'_>,
        store: &str,
        method: &str,
        given: Vec<CallArgument<'_>>,
        batch_rows: i64,
    ) -> PyResult<ArrowReader> {
        let rows = self::batch_rows(py, batch_rows)?;
        let answer = self.send(py, message(py, store, method, &given)?.with("rows", rows))?;
        let schema = answer.batch.schema();
        let mut pages = ScanPages::new(Arc::clone(&self.shared), rows, answer);
        Ok(ArrowReader::from_fn(schema, move || pages.next()))
    }

    fn digest(&self, py: Python<'_>, batch: PyRecordBatch) -> PyResult<()> {
        let batch = batch.into_inner();
        run(py, self.process, || self.output.lock().add(&batch))
    }

    fn done(&self, py: Python<'_>) -> PyResult<String> {
        run(py, self.process, || {
            let client = self.shared.client.lock().take().ok_or_else(session_ended)?;
            let output = self.output.lock();
            client.done(output.rows(), &output.digest())
        })
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        run(py, self.process, || {
            drop(self.shared.client.lock().take());
            Ok(())
        })
    }
}

/// The pages of a scan.
struct ScanPages {
    shared: Arc<SharedClient>,
    rows: usize,
    page: Option<RecordBatch>,
    /// The host's number of the scan; `None` at the scan's end.
    cursor: Option<String>,
}

impl ScanPages {
    fn new(shared: Arc<SharedClient>, rows: usize, answer: CallMessage) -> Self {
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

impl Drop for ScanPages {
    fn drop(&mut self) {
        self.shared
            .dropped_cursors
            .lock()
            .extend(self.cursor.take());
    }
}
