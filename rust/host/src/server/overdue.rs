//! The last resort against a host that outlives its executor.

use std::thread;
use std::time::Duration;

use holdfast_core::{Error, ErrorKind, Result};
use rustix::process::{Signal, getpid, kill_process};

use crate::executor::Executor;

/// Kills this process if it still runs `limit` after the executor's end.
///
/// A thread may then be blocked for good: by a file that does not answer (a FIFO, a file system
/// whose server is down) or in RocksDB. A kill loses nothing: a staged object is whole or absent,
/// and the log restores what a local database had not flushed.
///
/// # Errors
/// `Io` if the thread cannot be started.
pub fn kill_after(executor: Executor, limit: Duration) -> Result<()> {
    let watch = executor.watch();
    let wait = move || {
        watch.wait();
        thread::sleep(limit);
        // Nothing is logged before the kill: the log may be what blocks.
        if let Err(error) = kill_process(getpid(), Signal::KILL) {
            log::error!("a host that outlives its executor cannot be killed: {error}");
        }
    };
    thread::Builder::new()
        .name("overdue".to_owned())
        .spawn(wait)
        .map(drop)
        .map_err(|error| {
            Error::new(
                ErrorKind::Io,
                format!("the state host cannot start a thread: {error}"),
            )
        })
}
