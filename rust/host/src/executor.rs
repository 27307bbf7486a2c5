//! The executor that a host serves: a process, identified by its id and its start time.

use std::fmt;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// How often an executor is checked where the kernel cannot report its end.
const POLL: Duration = Duration::from_millis(100);

/// A process: its id and its start time (clock ticks since boot), because the system reuses ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Executor {
    pid: i32,
    start: u64,
}

impl Executor {
    /// Returns the process of an id, if it is alive.
    pub fn of(pid: i32) -> Option<Self> {
        start_time(pid).map(|start| Self { pid, start })
    }

    /// Whether the process runs: it is not a zombie and not a later process of the same id.
    pub fn is_alive(&self) -> bool {
        start_time(self.pid) == Some(self.start)
    }

    /// Watches the process: the watch's descriptor becomes readable when the process ends.
    pub fn watch(self) -> ExecutorWatch {
        let pidfd =
            Pid::from_raw(self.pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        ExecutorWatch {
            executor: self,
            pidfd,
        }
    }
}

/// A watched executor. Without pidfds (old kernels, some containers) it has no descriptor, and a
/// caller that does not use [`ExecutorWatch::wait`] must poll [`ExecutorWatch::is_alive`].
#[derive(Debug)]
pub struct ExecutorWatch {
    executor: Executor,
    pidfd: Option<OwnedFd>,
}

impl ExecutorWatch {
    /// The descriptor that becomes readable when the executor ends.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.pidfd.as_ref().map(AsFd::as_fd)
    }

    /// Whether the executor runs.
    pub fn is_alive(&self) -> bool {
        self.executor.is_alive()
    }

    /// Waits for the executor's end.
    pub fn wait(&self) {
        while self.is_alive() {
            match self.fd() {
                Some(fd) => {
                    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
                    if poll(&mut fds, None).is_err() {
                        thread::sleep(POLL);
                    }
                }
                None => thread::sleep(POLL),
            }
        }
    }
}

impl fmt::Display for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.pid, self.start)
    }
}

impl FromStr for Executor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (pid, start) = text.trim().split_once(' ').ok_or(())?;
        Ok(Self {
            pid: pid.parse().map_err(|_| ())?,
            start: start.parse().map_err(|_| ())?,
        })
    }
}

/// The start time of a live process.
fn start_time(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in brackets and may itself contain brackets.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    // A zombie has ended, although its parent has not reaped it yet.
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::process::{Pid, WaitId, WaitIdOptions};

    use super::*;

    #[test]
    fn process_differs_from_a_later_process_of_the_same_id() {
        let this = Executor::of(std::process::id().cast_signed()).expect("this process is alive");
        assert!(this.is_alive());
        assert_eq!(this.to_string().parse(), Ok(this));
        assert!(
            !Executor {
                start: this.start + 1,
                ..this
            }
            .is_alive()
        );
    }

    #[test]
    fn zombie_is_not_alive() {
        let mut child = Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep is there");
        let executor = Executor::of(child.id().cast_signed()).expect("alive");
        child.kill().expect("killed");
        // Waits until it is a zombie, and leaves it one.
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let pid = Pid::from_child(&child);
        rustix::process::waitid(WaitId::Pid(pid), ended).expect("a child");
        assert!(!executor.is_alive());
        child.wait().expect("reaped");
        assert!(!executor.is_alive());
    }
}
