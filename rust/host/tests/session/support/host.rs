//! A state host in a thread.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::support::endpoint::{TOKEN, loopback, wait_for_host};
use crate::support::wait::{PATIENCE, wait_until};
use holdfast_core::Result;
use holdfast_host::client::Client;
use holdfast_host::executor::Executor;
use holdfast_host::server::{ServerOptions, TcpPlace, serve};
use tempfile::TempDir;

/// A state host in a thread, with an executor (a sleeping process) that can be killed.
pub struct Host {
    pub socket: PathBuf,
    executor: Child,
    thread: Option<JoinHandle<Result<()>>>,
    folder: Option<TempDir>,
}

impl Host {
    /// A host that serves only its executor.
    pub fn start() -> Self {
        Self::with(None)
    }

    /// A host of a cluster, which serves workers of other executors, too.
    pub fn on_a_cluster() -> Self {
        Self::with(Some(loopback()))
    }

    fn with(tcp: Option<TcpPlace>) -> Self {
        Self::at(tempfile::tempdir().unwrap(), tcp)
    }

    fn at(folder: TempDir, tcp: Option<TcpPlace>) -> Self {
        let executor = Command::new("sleep")
            .arg("600")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let socket = folder.path().join("run/host.sock");
        let options = ServerOptions {
            socket: socket.clone(),
            token: TOKEN.into(),
            tcp,
            executor: Executor::of(executor.id().cast_signed()),
            idle: Duration::from_secs(600),
            owns_process: false,
        };
        assert!(options.executor.is_some());
        let thread = thread::spawn(move || serve(&options));
        wait_for_host(&socket);
        Self {
            socket,
            executor,
            thread: Some(thread),
            folder: Some(folder),
        }
    }

    /// Ends the executor and with it the host.
    pub fn stop(mut self) {
        self.end();
    }

    /// Ends this host and starts the next one at the same socket as soon as this one stops
    /// listening.
    pub fn replaced(mut self) -> Self {
        self.end_executor();
        // The host removes the socket before it releases the lock. A worker waits for the lock,
        // too.
        let lock = std::fs::File::open(self.socket.with_extension("host")).unwrap();
        lock.lock().unwrap();
        drop(lock);
        let next = Self::at(self.folder.take().unwrap(), None);
        self.thread.take().unwrap().join().unwrap().unwrap();
        self.executor.wait().unwrap();
        next
    }

    fn end(&mut self) {
        if self.thread.is_some() {
            self.end_executor();
            self.thread.take().unwrap().join().unwrap().unwrap();
            self.executor.wait().unwrap();
        }
    }

    /// Ends the executor, and waits until the host has stopped to listen.
    fn end_executor(&mut self) {
        self.executor.kill().unwrap();
        wait_until(
            || !self.socket.exists(),
            || "the host still listens".to_owned(),
        );
    }

    pub fn connect(&self) -> Client {
        Client::connect(&self.socket, TOKEN, PATIENCE).unwrap()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if thread::panicking() {
            // The test has failed. The executor's process must not outlive it.
            self.executor.kill().unwrap_or_default();
        } else {
            self.end();
        }
    }
}
