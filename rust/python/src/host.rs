//! The state host's client, and the host itself.

use crate::calls::HostCalls;
use crate::error::to_python;
use crate::export::ArrowBatch;
use crate::run::{Owner, run};
use holdfast_core::{Error, ErrorKind, Result};
use holdfast_host::client::{Client, Output};
use holdfast_host::executor::Executor;
use holdfast_host::logging;
use holdfast_host::protocol::Epoch;
use holdfast_host::root::{Root, StorageOptions};
use holdfast_host::server::{ServerOptions, TcpPlace, serve};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3_arrow::PyRecordBatch;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// One connection to a state host, which is one session.
#[pyclass(frozen, module = "holdfast._core")]
pub struct HostClient {
    owner: Owner,
    /// Nothing once it is finished or closed.
    client: Mutex<Option<Client>>,
}

/// What becomes of every call once a session has ended.
pub fn over() -> Error {
    Error::new(
        ErrorKind::InvalidState,
        "this session is finished or closed; connect again",
    )
}

impl HostClient {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Client) -> Result<T> + Send,
    ) -> PyResult<T> {
        run(py, self.owner, || {
            work(self.client.lock().as_mut().ok_or_else(over)?)
        })
    }
}

#[pymethods]
impl HostClient {
    /// Fails with the operating system's own exceptions: no host listens, or the token is wrong.
    #[staticmethod]
    fn connect(py: Python<'_>, socket: PathBuf, token: &str, timeout: f64) -> PyResult<Self> {
        let timeout = Duration::try_from_secs_f64(timeout).map_err(|error| {
            to_python(
                py,
                &Error::new(
                    ErrorKind::InvalidValue,
                    format!("timeout is {timeout}: {error}"),
                ),
            )
        })?;
        let owner = Owner::current();
        let client = run(py, owner, || Ok(Client::connect(&socket, token, timeout)))??;
        Ok(Self {
            owner,
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

    /// Ends the input of an operator whose code runs here; the session goes on as what answers its
    /// calls.
    fn end_input(&self, py: Python<'_>) -> PyResult<HostCalls> {
        let client = run(py, self.owner, || {
            let mut client = self.client.lock().take().ok_or_else(over)?;
            client.end_input()?;
            Ok(client)
        })?;
        Ok(HostCalls::new(self.owner, client))
    }

    fn finish(&self, py: Python<'_>) -> PyResult<HostOutput> {
        let output = run(py, self.owner, || {
            self.client.lock().take().ok_or_else(over)?.finish()
        })?;
        Ok(HostOutput {
            owner: self.owner,
            output: Mutex::new(output),
        })
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

/// Proves that a state's root can be reached and written, and that its store lets nothing be
/// created twice.
#[pyfunction]
pub fn check_root(
    py: Python<'_>,
    root: &str,
    storage_options: BTreeMap<String, String>,
) -> PyResult<()> {
    run(py, Owner::current(), || {
        Root::open(root, &StorageOptions(storage_options))?
            .identity
            .probe()
    })
}

/// `holdfast epoch drop`: the run that was claimed for it, and how many objects it took away; None
/// if there was nothing.
#[pyfunction]
pub fn drop_epoch(
    py: Python<'_>,
    root: &str,
    epoch: i64,
    storage_options: BTreeMap<String, String>,
) -> PyResult<Option<(u64, usize)>> {
    run(py, Owner::current(), || {
        let taken =
            Root::existing(root, &StorageOptions(storage_options))?.drop_epoch(Epoch(epoch))?;
        Ok(taken.map(|taken| (taken.run.0, taken.objects)))
    })
}

/// `holdfast rewind`: the run and the objects alike.
#[pyfunction]
pub fn rewind(
    py: Python<'_>,
    root: &str,
    epoch: i64,
    storage_options: BTreeMap<String, String>,
) -> PyResult<(u64, usize)> {
    run(py, Owner::current(), || {
        let taken = Root::existing(root, &StorageOptions(storage_options))?.rewind(Epoch(epoch))?;
        Ok((taken.run.0, taken.objects))
    })
}

/// The state host's process: `--socket S --token-file F --executor-pid P --idle-seconds N`, and for
/// executors elsewhere `--name HOST` with or without `--bind ADDRESS`. Returns when its executor is
/// gone or no session has been open for that long; its log goes to stderr.
#[pyfunction]
pub fn host_main(py: Python<'_>, argv: Vec<String>) -> PyResult<i32> {
    run(py, Owner::current(), || {
        logging::to_stderr();
        match serve(&server_options(&argv)?) {
            Ok(()) => Ok(0),
            Err(error) => {
                log::error!("{error}");
                Ok(1)
            }
        }
    })
}

fn server_options(argv: &[String]) -> Result<ServerOptions> {
    let wrong = |words: String| Error::new(ErrorKind::InvalidValue, words);
    let optional = |name: &str| {
        let at = argv.iter().position(|argument| argument == name);
        at.and_then(|at| argv.get(at + 1))
    };
    let argument =
        |name: &str| optional(name).ok_or_else(|| wrong(format!("the state host needs {name}")));
    let number = |name: &str| {
        let text = argument(name)?;
        text.parse::<u32>()
            .map_err(|error| wrong(format!("{name} is {text:?}: {error}")))
    };
    let token_file = argument("--token-file")?;
    let token = std::fs::read_to_string(token_file).map_err(|error| {
        Error::new(ErrorKind::Io, format!("the token cannot be read: {error}"))
            .path(token_file.as_ref())
    })?;
    let pid = number("--executor-pid")?;
    let executor = i32::try_from(pid)
        .ok()
        .and_then(Executor::of)
        .ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidState,
                format!(
                    "the executor, process {pid}, is gone, and with it the need for a state host"
                ),
            )
        })?;
    Ok(ServerOptions {
        socket: PathBuf::from(argument("--socket")?),
        token,
        tcp: optional("--name").map(|name| TcpPlace {
            name: name.clone(),
            bind: optional("--bind").cloned(),
        }),
        executor: Some(executor),
        idle: Duration::from_secs(number("--idle-seconds")?.into()),
    })
}
