//! The threads of the scans of a process, which end before the process exits.
//!
//! An exit destroys the global objects of RocksDB. If a thread is still in RocksDB then, it crashes
//! the process.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use holdfast_core::{Error, ErrorKind, Process, Result};
use parking_lot::Mutex;

use super::batch_queue::{BatchQueue, closed};

/// The pause between two checks whether the threads have ended.
const POLL: Duration = Duration::from_millis(2);

static SCANS: ScanThreads = ScanThreads::new();

struct ScanThreads(Mutex<State>);

struct State {
    /// Whether the process exits: no further scan starts.
    is_ended: bool,
    /// The threads that may still run. In a forked child also those of its parent, which the child
    /// lacks: their handles must not be dropped.
    threads: Vec<ScanThread>,
}

struct ScanThread {
    /// The process that has the thread.
    process: Process,
    queue: Arc<BatchQueue>,
    handle: JoinHandle<()>,
}

impl ScanThreads {
    const fn new() -> Self {
        Self(Mutex::new(State {
            is_ended: false,
            threads: Vec::new(),
        }))
    }

    fn start(&self, queue: Arc<BatchQueue>, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let mut state = self.0.lock();
        if state.is_ended {
            return Err(closed());
        }
        let handle = thread::Builder::new()
            .name("scan".to_owned())
            .spawn(work)
            .map_err(|error| {
                let text = format!("the thread of a scan cannot be started: {error}");
                Error::new(ErrorKind::Io, text)
            })?;
        state
            .threads
            .retain(|scan| !scan.process.is_current() || !scan.handle.is_finished());
        state.threads.push(ScanThread {
            process: Process::current(),
            queue,
            handle,
        });
        Ok(())
    }

    fn end(&self, limit: Duration) {
        let end = Instant::now() + limit;
        // A thread that a forked child lacks may hold the lock.
        let Some(mut state) = self.0.try_lock_until(end) else {
            return;
        };
        state.is_ended = true;
        let threads = &mut state.threads;
        loop {
            for scan in threads.iter().filter(|scan| scan.process.is_current()) {
                scan.queue.close();
            }
            let finished =
                |scan: &mut ScanThread| scan.process.is_current() && scan.handle.is_finished();
            for scan in threads.extract_if(.., finished) {
                // After it has finished, a thread still frees what RocksDB stored for it.
                if scan.handle.join().is_err() {
                    log::error!("the thread of a scan has panicked");
                }
            }
            if !threads.iter().any(|scan| scan.process.is_current()) {
                return;
            }
            if Instant::now() >= end {
                log::warn!("a scan does not end, and may crash the process at its exit");
                return;
            }
            thread::sleep(POLL);
        }
    }
}

/// Starts the thread of a scan; `work` ends soon after its queue is closed.
///
/// # Errors
/// `Io` if the thread cannot be started, `StoreClosed` after [`end_scans`].
pub fn start(queue: Arc<BatchQueue>, work: impl FnOnce() + Send + 'static) -> Result<()> {
    SCANS.start(queue, work)
}

/// Ends all scans of this process, also those that start later, and waits for their threads, but
/// not longer than `limit`. Called once, before the process exits.
pub fn end_scans(limit: Duration) {
    SCANS.end(limit);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn end_waits_for_threads_and_refuses_later_scans() {
        let scans = ScanThreads::new();
        let is_done = Arc::new(AtomicBool::new(false));
        let (_send, queue) = BatchQueue::bounded(1);
        let (own, done) = (Arc::clone(&queue), Arc::clone(&is_done));
        let work = move || {
            while own.check_open().is_ok() {
                thread::sleep(POLL);
            }
            thread::sleep(10 * POLL);
            done.store(true, Ordering::SeqCst);
        };
        scans.start(Arc::clone(&queue), work).expect("starts");
        scans.end(Duration::from_secs(60));
        assert!(is_done.load(Ordering::SeqCst));
        let error = scans.start(queue, || ()).expect_err("has ended");
        assert_eq!(error.kind(), ErrorKind::StoreClosed);
    }

    #[test]
    fn end_does_not_wait_longer_than_its_limit() {
        let scans = ScanThreads::new();
        let (wait, waits) = std::sync::mpsc::channel::<()>();
        let (_send, queue) = BatchQueue::bounded(1);
        let work = move || {
            waits.recv().ok();
        };
        scans.start(queue, work).expect("starts");
        scans.end(Duration::from_millis(20));
        drop(wait);
        scans.end(Duration::from_secs(60));
        assert!(scans.0.lock().threads.is_empty());
    }
}
