//! A state host in a separate process.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self};
use std::time::{Duration, Instant};

use crate::support::endpoint::{TOKEN, loopback, wait_for_host};
use crate::support::wait::PATIENCE;
use holdfast_host::client::Client;
use holdfast_host::executor::Executor;
use holdfast_host::server::{ServerOptions, serve};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};
use tempfile::TempDir;

/// A state host in a separate process, which can be killed and stopped.
pub struct HostProcess {
    pub socket: PathBuf,
    process: Child,
    folder: TempDir,
}

impl HostProcess {
    /// A host that serves only its executor.
    pub fn start() -> Self {
        Self::with("", std::process::id(), None)
    }

    /// A host that serves only its executor, the process of this id.
    pub fn of(executor: u32) -> Self {
        Self::with("", executor, None)
    }

    /// As [`HostProcess::of`], with another file for its log.
    pub fn logging_to(log: Stdio, executor: u32) -> Self {
        Self::with("", executor, Some(log))
    }

    /// A host of a cluster, which serves workers of other executors, too.
    pub fn on_a_cluster() -> Self {
        Self::with("yes", std::process::id(), None)
    }

    fn with(cluster: &str, executor: u32, log: Option<Stdio>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("host.sock");
        let file = std::fs::File::create(folder.path().join("log")).unwrap();
        // As in Python: writing beyond the file size limit is an error and not a fatal signal.
        let process = Command::new("sh")
            .args(["-c", r#"trap "" XFSZ; exec "$0" "$@""#])
            .arg(std::env::current_exe().unwrap())
            .args([
                "support::host_process::serves_in_a_separate_process",
                "--exact",
                "--ignored",
            ])
            .stderr(log.unwrap_or_else(|| file.into()))
            .env("HOLDFAST_TEST_SOCKET", &socket)
            .env("HOLDFAST_TEST_CLUSTER", cluster)
            .env("HOLDFAST_TEST_EXECUTOR", executor.to_string())
            .spawn()
            .unwrap();
        wait_for_host(&socket);
        Self {
            socket,
            process,
            folder,
        }
    }

    /// Waits until the host has ended by itself.
    pub fn wait(&mut self) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status;
            }
            assert!(started.elapsed() < PATIENCE, "it runs: {}", self.log());
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Sends SIGKILL: nothing is flushed.
    pub fn kill(self) {
        drop(self);
    }

    pub fn connect(&self) -> Client {
        Client::connect(&self.socket, TOKEN, PATIENCE).unwrap()
    }

    /// The host's log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// Limits the size of files, as a full disk does; `None` lifts the limit.
    pub fn limit_files(&self, bytes: Option<u64>) {
        let limit = Rlimit {
            current: bytes,
            maximum: None,
        };
        prlimit(Some(Pid::from_child(&self.process)), Resource::Fsize, limit).unwrap();
    }

    /// The peak of the host's memory, in bytes.
    pub fn peak_memory(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let peak = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"))
            .unwrap();
        peak.parse::<u64>().unwrap() << 10
    }

    /// The nice values of the host and of its threads.
    pub fn nice_values(&self) -> (i32, Vec<i32>) {
        let process = PathBuf::from(format!("/proc/{}", self.process.id()));
        let threads = std::fs::read_dir(process.join("task")).unwrap();
        // A thread may end meanwhile.
        let threads = threads.filter_map(|thread| nice_value(&thread.ok()?.path()));
        (nice_value(&process).unwrap(), threads.collect())
    }

    /// Limits the host to one more open file.
    pub fn leave_one_handle(&self) {
        let open = std::fs::read_dir(format!("/proc/{}/fd", self.process.id())).unwrap();
        let open: Vec<u64> = open
            .map(|handle| {
                handle
                    .unwrap()
                    .file_name()
                    .to_str()
                    .unwrap()
                    .parse()
                    .unwrap()
            })
            .collect();
        let free = (0..).find(|number| !open.contains(number)).unwrap();
        self.limit_handles(Some(free + 1));
    }

    /// Lifts the limit of open files.
    pub fn leave_all_handles(&self) {
        self.limit_handles(getrlimit(Resource::Nofile).current);
    }

    fn limit_handles(&self, current: Option<u64>) {
        let limit = Rlimit {
            current,
            maximum: getrlimit(Resource::Nofile).maximum,
        };
        prlimit(
            Some(Pid::from_child(&self.process)),
            Resource::Nofile,
            limit,
        )
        .unwrap();
    }

    /// Sends SIGSTOP: the host keeps its locks and does not answer.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// Sends SIGCONT: the host continues.
    pub fn wake(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }
}

impl Drop for HostProcess {
    fn drop(&mut self) {
        if thread::panicking() {
            println!("{}", self.log());
        }
        // An error only if the process has ended and was waited for.
        self.process.kill().unwrap_or_default();
        self.process.wait().unwrap();
    }
}

/// The nice value of a process or thread: the nineteenth field of `stat`.
fn nice_value(folder: &Path) -> Option<i32> {
    let stat = std::fs::read_to_string(folder.join("stat")).ok()?;
    // The second field is a name in parentheses.
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(16)?.parse().ok()
}

#[test]
#[ignore = "the body of HostProcess, not a test"]
fn serves_in_a_separate_process() {
    let socket = std::env::var_os("HOLDFAST_TEST_SOCKET").expect("started by HostProcess");
    holdfast_host::logging::to_stderr();
    let executor = std::env::var("HOLDFAST_TEST_EXECUTOR").expect("started by HostProcess");
    let executor = Executor::of(executor.parse().expect("a process id"));
    assert!(executor.is_some(), "the executor runs");
    let cluster = std::env::var("HOLDFAST_TEST_CLUSTER").expect("started by HostProcess") == "yes";
    let tcp = cluster.then(loopback);
    serve(&ServerOptions {
        socket: socket.into(),
        token: TOKEN.into(),
        tcp,
        executor,
        idle: Duration::from_secs(60),
        owns_process: true,
    })
    .unwrap();
}
