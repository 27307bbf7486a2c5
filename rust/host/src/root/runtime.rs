//! The runtime under the object store: callers block, the store's futures run here.

use std::future::Future;
use std::sync::OnceLock;

use holdfast_core::{Error, ErrorKind, Result};
use tokio::runtime::{Builder, Runtime};

static RUNTIME: OnceLock<Runtime> = OnceLock::new();

/// Runs a future to its end on this thread.
pub fn block_on<F: Future>(future: F) -> Result<F::Output> {
    if RUNTIME.get().is_none() {
        let made = Builder::new_multi_thread().worker_threads(1).thread_name("holdfast-root").build();
        let runtime = made.map_err(|error| Error::new(ErrorKind::Io, format!("cannot start the state host's I/O threads: {error}")))?;
        // Another thread may have been faster; then its runtime serves both.
        let _ = RUNTIME.set(runtime);
    }
    let runtime = RUNTIME.get().ok_or_else(|| Error::new(ErrorKind::Io, "the state host's I/O threads are gone"))?;
    Ok(runtime.block_on(future))
}
