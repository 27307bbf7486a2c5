//! The async runtime of the object store client: callers block until a future is ready.

use std::future::Future;
use std::process;

use holdfast_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};

/// The runtime and the id of the process that made it: a forked child lacks the runtime's threads.
static RUNTIME: Mutex<Option<(u32, &'static Runtime)>> = Mutex::new(None);

/// Runs a future to its end on this thread.
///
/// # Errors
/// `Io` if the runtime's threads cannot be started.
pub fn block_on<F: Future>(future: F) -> Result<F::Output> {
    Ok(runtime()?.block_on(future))
}

fn runtime() -> Result<&'static Runtime> {
    let mut made = RUNTIME.lock();
    if let Some((maker, runtime)) = *made
        && maker == process::id()
    {
        return Ok(runtime);
    }
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("holdfast-root")
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| {
        Error::new(
            ErrorKind::Io,
            format!("cannot start the state host's I/O threads: {error}"),
        )
    })?;
    // Leaked on purpose: it lives as long as the process.
    let runtime = Box::leak(Box::new(runtime));
    *made = Some((process::id(), runtime));
    Ok(runtime)
}
