//! The priority of threads.

use rustix::process::{getpriority_process, setpriority_process};

/// How much lower the priority of a thread becomes, as a nice value. A thread that it competes with
/// for a core gets three times its share.
const LOWER: i32 = 5;
/// The lowest priority of Linux.
const LOWEST: i32 = 19;

/// Lowers the priority of the calling thread. It stays low until the thread ends: raising it is a
/// privilege.
pub fn lower() {
    // On Linux a priority is one thread's, and none is the calling one.
    let lowered = getpriority_process(None)
        .and_then(|nice| setpriority_process(None, (nice + LOWER).min(LOWEST)));
    if let Err(error) = lowered {
        log::debug!("a thread keeps its priority: {error}");
    }
}
