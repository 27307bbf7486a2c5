//! The executor that a host serves: a process, identified by its id and its start time.

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
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
        let start = start_time(read_stat(pid)).ok()??;
        Some(Self { pid, start })
    }

    /// Whether the process runs: it is not a zombie and not a later process of the same id.
    ///
    /// True if this cannot be read, for example without a free file descriptor: another host would
    /// take the directories of a live executor's host.
    pub fn is_alive(&self) -> bool {
        self.is_alive_by(read_stat(self.pid))
    }

    fn is_alive_by(&self, stat: io::Result<String>) -> bool {
        start_time(stat).map_or(true, |start| start == Some(self.start))
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
        match self.fd() {
            // This needs no free file descriptor.
            Some(fd) => {
                let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
                !matches!(poll(&mut fds, Some(&Timespec::default())), Ok(ended) if ended > 0)
            }
            None => self.executor.is_alive(),
        }
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

/// What the kernel reports of a process.
fn read_stat(pid: i32) -> io::Result<String> {
    fs::read_to_string(format!("/proc/{pid}/stat"))
}

/// The start time in a process's report, or none if the process has ended.
///
/// # Errors
/// The report's error, unless it means that there is no such process.
fn start_time(stat: io::Result<String>) -> io::Result<Option<u64>> {
    match stat {
        Ok(stat) => Ok(parse_start_time(&stat)),
        // The process may end between the open and the read of the file.
        Err(error)
            if error.kind() == io::ErrorKind::NotFound
                || Errno::from_io_error(&error) == Some(Errno::SRCH) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn parse_start_time(stat: &str) -> Option<u64> {
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
    fn process_whose_report_cannot_be_read_has_not_ended() {
        let this = Executor::of(std::process::id().cast_signed()).expect("this process is alive");
        for (errno, is_alive) in [
            (Errno::NOENT, false),
            (Errno::SRCH, false),
            (Errno::MFILE, true),
            (Errno::NFILE, true),
        ] {
            assert_eq!(this.is_alive_by(Err(errno.into())), is_alive, "{errno}");
        }
    }

    #[test]
    fn zombie_is_not_alive() {
        let mut child = Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep is there");
        let executor = Executor::of(child.id().cast_signed()).expect("alive");
        let watch = executor.watch();
        assert!(watch.is_alive());
        child.kill().expect("killed");
        // Waits until it is a zombie, and leaves it one.
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let pid = Pid::from_child(&child);
        rustix::process::waitid(WaitId::Pid(pid), ended).expect("a child");
        assert!(!executor.is_alive());
        assert!(!watch.is_alive());
        child.wait().expect("reaped");
        assert!(!executor.is_alive());
    }
}
