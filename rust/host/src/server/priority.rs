//! The priority of threads.

use std::panic::resume_unwind;
use std::thread;

use rustix::process::{getpriority_process, setpriority_process};

/// How much lower the priority of a thread becomes, as a nice value. A thread that it competes with
/// for a core gets three times its share.
const LOWER: i32 = 5;
/// The lowest priority of Linux.
const LOWEST: i32 = 19;

/// Runs work in a thread of its own that has a lower priority, and waits for it.
///
/// Only a privileged process may raise a priority, so a thread cannot raise its own again.
pub fn run_low<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let mut work = Some(work);
    let done = thread::scope(|scope| {
        let low = || {
            lower();
            work.take().map(|work| work())
        };
        let thread = thread::Builder::new().name("long read".to_owned());
        match thread.spawn_scoped(scope, low) {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(error) => {
                log::debug!("a long read has the usual priority: {error}");
                None
            }
        }
    });
    done.unwrap_or_else(|| work.take().map(|work| work()).expect("it did not run"))
}

/// Lowers the priority of the calling thread.
fn lower() {
    // On Linux, each thread has a priority, and `None` is the calling thread.
    let lowered = getpriority_process(None)
        .and_then(|nice| setpriority_process(None, (nice + LOWER).min(LOWEST)));
    if let Err(error) = lowered {
        log::debug!("a thread keeps its priority: {error}");
    }
}
