//! The state host's client, and the host itself.

use crate::error::to_python;
use crate::export::ArrowBatch;
use crate::run::{run, Owner};
use holdfast_core::{Error, ErrorKind, Result};
use holdfast_host::client::{Client, Output};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3_arrow::PyRecordBatch;
use std::path::PathBuf;
use std::time::Duration;

/// One connection to a state host, which is one session.
#[pyclass(frozen, module = "holdfast._core")]
pub struct HostClient {
    owner: Owner,
    /// Nothing once it is finished or closed.
    client: Mutex<Option<Client>>,
}

fn over() -> Error {
    Error::new(ErrorKind::InvalidState, "this session is finished or closed; connect again")
}

impl HostClient {
    fn with<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut Client) -> Result<T> + Send) -> PyResult<T> {
        run(py, self.owner, || work(self.client.lock().as_mut().ok_or_else(over)?))
    }
}

#[pymethods]
impl HostClient {
    /// Fails with the operating system's own exceptions: no host listens, or the token is wrong.
    #[staticmethod]
    fn connect(py: Python<'_>, socket: PathBuf, token: &str, timeout: f64) -> PyResult<Self> {
        let timeout = Duration::try_from_secs_f64(timeout)
            .map_err(|error| to_python(py, &Error::new(ErrorKind::InvalidValue, format!("timeout is {timeout}: {error}"))))?;
        let owner = Owner::current();
        let client = run(py, owner, || Ok(Client::connect(&socket, token, timeout)))??;
        Ok(Self { owner, client: Mutex::new(Some(client)) })
    }

    fn open_session(&self, py: Python<'_>, request: &str) -> PyResult<String> {
        self.with(py, |client| client.open(request))
    }

    fn push(&self, py: Python<'_>, batch: PyRecordBatch) -> PyResult<()> {
        let batch = batch.into_inner();
        self.with(py, move |client| client.push(&batch))
    }

    fn finish(&self, py: Python<'_>) -> PyResult<HostOutput> {
        let output = run(py, self.owner, || self.client.lock().take().ok_or_else(over)?.finish())?;
        Ok(HostOutput { owner: self.owner, output: Mutex::new(output) })
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        run(py, self.owner, || {
            drop(self.client.lock().take());
            Ok(())
        })
    }
}

/// A session's output; it ends only after the host has acknowledged the stage.
#[pyclass(frozen, module = "holdfast._core")]
pub struct HostOutput {
    owner: Owner,
    output: Mutex<Output>,
}

#[pymethods]
impl HostOutput {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<ArrowBatch>> {
        let next = run(py, self.owner, || self.output.lock().next().transpose())?;
        Ok(next.map(ArrowBatch::new))
    }

    /// What the host said about the stage (JSON), once the iterator has ended.
    fn staged(&self) -> Option<String> {
        self.output.lock().staged().map(str::to_owned)
    }
}
