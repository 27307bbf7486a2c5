//! The state host's process.

use crate::run::run;
use holdfast_core::{Error, ErrorKind, Process, Result};
use holdfast_host::executor::Executor;
use holdfast_host::logging;
use holdfast_host::server::{ServerOptions, TcpPlace, serve};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::time::Duration;

/// Runs the state host's process.
///
/// Its arguments are `--socket S --token-file F --executor-pid P --idle-seconds N`; for executors
/// on other machines also `--name HOST` and, optionally, `--bind ADDRESS`. It returns when its
/// executor has exited. It also returns if no session was open for N seconds and for three times
/// the longest pause between the newest micro-batches of its queries. Its log goes to stderr.
#[pyfunction]
pub fn host_main(py: Python<'_>, argv: Vec<String>) -> PyResult<i32> {
    run(py, Process::current(), || {
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
    let wrong = |message: String| Error::new(ErrorKind::InvalidValue, message);
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
                    "the executor, process {pid}, has exited or cannot be read, so no state host \
                     starts"
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
        owns_process: true,
    })
}
