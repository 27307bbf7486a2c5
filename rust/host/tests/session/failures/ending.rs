//! Hosts whose executor ends, also while a file or a pipe blocks them.
//!
//! A host must be gone 10 s after its executor, and kills itself before that
//! (`rust/host/src/server/mod.rs`). So the exit status shows whether it was in time: no host ends
//! by itself after the kill.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread;

use rustix::fs::{CWD, FileType, Mode, OFlags, fcntl_setfl, mknodat};
use rustix::process::Signal;

use crate::support::{Host, HostProcess, Spark, TaskRequest, left, matched, right, wait_until};

/// A file that blocks its readers.
struct Blocked {
    file: PathBuf,
    content: Vec<u8>,
}

impl Blocked {
    fn new(file: PathBuf) -> Self {
        let content = fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        mknodat(CWD, &file, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        Self { file, content }
    }

    /// Restores the file.
    fn unblock(self) {
        fs::remove_file(&self.file).unwrap();
        fs::write(self.file, self.content).unwrap();
    }
}

fn executor() -> Child {
    Command::new("sleep").arg("600").spawn().unwrap()
}

/// Runs two epochs. With `snapshot`, waits until a snapshot has been taken. Then stops the host and
/// deletes the local databases.
fn two_epochs(spark: &Spark, snapshot: bool) {
    let host = Host::start();
    for epoch in 0..2 {
        spark.epoch(epoch, || {
            let mut task = TaskRequest::new(spark, "a", epoch);
            if snapshot {
                task.request["settings"]["snapshot_interval"] = 0.into();
            }
            task.run(host.connect(), &[right("EUR", epoch, 100 + epoch)])
                .unwrap()
        });
    }
    let folder = spark.path().join("snapshots/join/0");
    let has_manifest = || {
        fs::read_dir(&folder).is_ok_and(|files| {
            files
                .flatten()
                .any(|file| file.path().is_file() && !file.path().to_string_lossy().contains('#'))
        })
    };
    if snapshot {
        wait_until(has_manifest, || "no snapshot".to_owned());
    }
    host.stop();
    spark.delete_local();
}

/// Whether a host ended with its executor: by itself, or by the kill.
fn was_in_time(status: ExitStatus) -> bool {
    status.success() || status.signal() == Some(Signal::KILL.as_raw())
}

fn any_file(folder: &Path) -> PathBuf {
    let mut files = fs::read_dir(folder).unwrap();
    files.next().unwrap().unwrap().path()
}

/// Begins epoch 2 on a host, waits until the host's log has `waits`, and ends the executor.
fn end_in_restore(spark: &Spark, waits: &str) -> (HostProcess, ExitStatus) {
    let mut executor = executor();
    let mut host = HostProcess::of(executor.id());
    spark.begin(2);
    let task = TaskRequest::new(spark, "a", 2);
    let client = host.connect();
    let session = thread::spawn(move || task.run(client, &[]).map(|_| ()));
    wait_until(|| host.log().contains(waits), || host.log());
    executor.kill().unwrap();
    executor.wait().unwrap();
    let status = host.wait();
    let error = session.join().unwrap().expect_err("its host has ended");
    assert!(error.to_string().contains("retries the task"), "{error}");
    (host, status)
}

fn continues(spark: &Spark) {
    let done = TaskRequest::new(spark, "a", 2)
        .attempt(2)
        .run(Host::start().connect(), &[left("EUR", 9, 1)])
        .unwrap();
    assert_eq!(done.rows, [matched(1, 101, 1)]);
}

#[test]
fn host_without_work_ends_by_itself() {
    let mut executor = executor();
    let mut host = HostProcess::of(executor.id());
    executor.kill().unwrap();
    executor.wait().unwrap();
    let status = host.wait();
    assert!(status.success(), "{status}: {}", host.log());
}

#[test]
fn host_ends_while_a_file_of_a_snapshot_does_not_open() {
    let spark = Spark::new();
    if !Spark::is_local() {
        return;
    }
    two_epochs(&spark, true);
    let blocked = Blocked::new(any_file(&spark.path().join("snapshots/join/0/files")));
    let (host, status) = end_in_restore(&spark, "restoring the snapshot of epoch");
    assert!(status.success(), "{status}: {}", host.log());
    blocked.unblock();
    continues(&spark);
}

#[test]
fn host_ends_while_a_file_of_the_log_does_not_open() {
    let spark = Spark::new();
    if !Spark::is_local() {
        return;
    }
    two_epochs(&spark, false);
    let blocked = Blocked::new(spark.path().join(format!("log/{:020}/join.0.1", 0)));
    let (host, status) = end_in_restore(&spark, "replaying the log, epochs 0 to 1");
    assert!(status.success(), "{status}: {}", host.log());
    blocked.unblock();
    continues(&spark);
}

#[test]
fn host_ends_while_a_file_of_a_snapshot_sends_no_bytes() {
    let spark = Spark::new();
    if !Spark::is_local() {
        return;
    }
    two_epochs(&spark, true);
    let blocked = Blocked::new(any_file(&spark.path().join("snapshots/join/0/files")));
    // Readers can open it, and then wait in a call that nothing cancels.
    let writer = File::options()
        .read(true)
        .write(true)
        .open(&blocked.file)
        .unwrap();
    let (host, status) = end_in_restore(&spark, "restoring the snapshot of epoch");
    assert!(was_in_time(status), "{status}: {}", host.log());
    drop(writer);
    blocked.unblock();
    continues(&spark);
}

#[test]
fn host_whose_main_thread_is_blocked_is_killed() {
    // Its log is a pipe that is full and that no process reads.
    let (_reader, mut log) = std::io::pipe().unwrap();
    fcntl_setfl(&log, OFlags::NONBLOCK).unwrap();
    while log.write(&[b'x'; 4_096]).is_ok() {}
    fcntl_setfl(&log, OFlags::empty()).unwrap();
    let mut executor = executor();
    let mut host = HostProcess::logging_to(log.into(), executor.id());
    executor.kill().unwrap();
    executor.wait().unwrap();
    assert_eq!(host.wait().signal(), Some(Signal::KILL.as_raw()));
}
