//! The executor whose state a host serves: a process, told from later ones of the same id by its
//! start time.

use std::fmt;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::str::FromStr;

use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// A process: its id and its start time (clock ticks since boot), since ids come again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Executor {
    pid: i32,
    start: u64,
}

impl Executor {
    /// The process of an id, if it is alive.
    pub fn of(pid: i32) -> Option<Self> {
        start_time(pid).map(|start| Self { pid, start })
    }

    /// Whether it runs: not ended, not a zombie, and not another process of the same id.
    pub fn is_alive(&self) -> bool {
        start_time(self.pid) == Some(self.start)
    }

    /// Watches it: the watch is ready to read as soon as it ends.
    pub fn watch(self) -> Watch {
        let pidfd =
            Pid::from_raw(self.pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        Watch {
            executor: self,
            pidfd,
        }
    }
}

/// A watched executor. Without pidfds (old kernels, some containers) [`Watch::is_alive`] must be
/// asked.
#[derive(Debug)]
pub struct Watch {
    executor: Executor,
    pidfd: Option<OwnedFd>,
}

impl Watch {
    /// What becomes ready to read when the executor ends.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.pidfd.as_ref().map(AsFd::as_fd)
    }

    /// Whether the executor runs.
    pub fn is_alive(&self) -> bool {
        self.executor.is_alive()
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
    // The name stands in brackets and may hold anything, brackets too.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    // A zombie has ended; that its parent has not noticed yet is no life.
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_is_told_from_a_later_one_of_its_id() {
        let own = Executor::of(std::process::id().cast_signed()).expect("this process is alive");
        assert!(own.is_alive());
        assert_eq!(own.to_string().parse(), Ok(own));
        assert!(
            !Executor {
                start: own.start + 1,
                ..own
            }
            .is_alive()
        );
    }

    #[test]
    fn a_zombie_is_dead() {
        let mut child = Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep is there");
        let executor = Executor::of(child.id().cast_signed()).expect("alive");
        child.kill().expect("killed");
        for _ in 0..1_000 {
            if !executor.is_alive() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        assert!(!executor.is_alive());
        child.wait().expect("reaped");
        assert!(!executor.is_alive());
    }
}
