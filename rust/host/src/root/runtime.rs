//! The runtime under the object store: callers block, the store's futures run here.

use std::future::Future;
use std::process;

use holdfast_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};

/// The runtime, and the process that made it: a forked child has none of its threads.
static RUNTIME: Mutex<Option<(u32, &'static Runtime)>> = Mutex::new(None);

/// Runs a future to its end on this thread.
///
/// # Errors
/// `Io` where the runtime's threads cannot be started.
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
    // It lives as long as the process.
    let runtime = Box::leak(Box::new(runtime));
    *made = Some((process::id(), runtime));
    Ok(runtime)
}
