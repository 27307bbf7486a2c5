//! The client of a state host.

use crate::arrow::export::ArrowBatch;
use crate::host::calls::{HostCalls, session_ended};
use crate::run::{run, run_attached};
use holdfast_core::{Error, ErrorKind, Process, Result};
use holdfast_host::client::{Client, SessionOutput};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3_arrow::PyRecordBatch;
use std::path::PathBuf;
use std::time::Duration;

/// One connection to a state host: one session.
#[pyclass(frozen, module = "holdfast._core")]
pub struct HostClient {
    process: Process,
    /// `None` once the session is finished or closed.
    client: Mutex<Option<Client>>,
}

impl HostClient {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Client) -> Result<T> + Send,
    ) -> PyResult<T> {
        run(py, self.process, || {
            work(self.client.lock().as_mut().ok_or_else(session_ended)?)
        })
    }
}

#[pymethods]
impl HostClient {
    /// Raises `OSError` if no host listens or answers, or if the token is wrong.
    #[staticmethod]
    fn connect(py: Python<'_>, socket: PathBuf, token: &str, timeout: f64) -> PyResult<Self> {
        let timeout = run_attached(py, || {
            Duration::try_from_secs_f64(timeout).map_err(|error| {
                let message = format!("timeout is {timeout}: {error}");
                Error::new(ErrorKind::InvalidValue, message)
            })
        })?;
        let process = Process::current();
        let client = run(py, process, || Ok(Client::connect(&socket, token, timeout)))??;
        Ok(Self {
            process,
            client: Mutex::new(Some(client)),
        })
    }

    fn open_session(&self, py: Python<'_>, request: &str) -> PyResult<String> {
        self.with(py, |client| client.open(request))
    }

    fn push(&self, py: Python<'_>, batch: PyRecordBatch) -> PyResult<()> {
        let batch = batch.into_inner();
        self.with(py, move |client| client.push(&batch))
    }

    /// Ends the input of an operator whose code runs in this process; the session then answers the
    /// operator's calls.
    fn end_input(&self, py: Python<'_>) -> PyResult<HostCalls> {
        let client = run(py, self.process, || {
            let mut client = self.client.lock().take().ok_or_else(session_ended)?;
            client.end_input()?;
            Ok(client)
        })?;
        Ok(HostCalls::new(self.process, client))
    }

    fn finish(&self, py: Python<'_>) -> PyResult<HostOutput> {
        let output = run(py, self.process, || {
            self.client
                .lock()
                .take()
                .ok_or_else(session_ended)?
                .finish()
        })?;
        Ok(HostOutput {
            process: self.process,
            output: Mutex::new(output),
        })
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        run(py, self.process, || {
            drop(self.client.lock().take());
            Ok(())
        })
    }
}

/// A session's output. It ends only after the host has acknowledged the stage.
#[pyclass(frozen, module = "holdfast._core")]
pub struct HostOutput {
    process: Process,
    output: Mutex<SessionOutput>,
}

#[pymethods]
impl HostOutput {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<ArrowBatch>> {
        let next = run(py, self.process, || self.output.lock().next().transpose())?;
        Ok(next.map(ArrowBatch::new))
    }

    /// Returns the host's answer about the stage (JSON), once the iterator has ended.
    fn staged(&self) -> Option<String> {
        self.output.lock().staged().map(str::to_owned)
    }
}
