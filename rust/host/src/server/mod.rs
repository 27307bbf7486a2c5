//! The state host as a process: it listens, serves each connection in its own thread, and ends with
//! its executor.

mod background;
mod connection;
mod idle;
mod listener;
mod overdue;
mod priority;
mod read_connection;
mod read_requests;
mod right;
mod session_error;
mod sessions;

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use holdfast_core::Result;
use parking_lot::Mutex;

use crate::executor::{Executor, ExecutorWatch};
use crate::host::Host;
use crate::machine;
use crate::root::ReaderAddress;
use crate::server::background::BackgroundTask;
use crate::server::idle::{IdleEnd, IdleStep};
pub use crate::server::listener::TcpPlace;
use crate::server::listener::{Listeners, listen_on_socket, listen_on_tcp};
use crate::server::sessions::{Sessions, wait_until};

/// How often the host checks whether maintenance is due. It also checks the executor if the kernel
/// cannot report its end.
const TICK: Duration = Duration::from_millis(100);
/// The longest time between two runs of maintenance.
const MAINTENANCE: Duration = Duration::from_secs(15);
/// How long a host that ends waits for its sessions and snapshots.
const FAREWELL: Duration = Duration::from_secs(5);
/// How long it then waits for them after it has cancelled them.
const CANCELLED: Duration = Duration::from_secs(2);
/// The time after which a host that ends no longer waits for a database that is in use.
const CLOSED: Duration = Duration::from_secs(8);
/// The time after its executor's end at which a host is killed.
const LAST_RESORT: Duration = Duration::from_secs(9);
/// The time after its executor's end within which a host is gone.
const GONE: Duration = Duration::from_secs(10);

// A host that ends by itself does so before it is killed, so its exit status shows that it was in
// time.
const _: () = {
    let waits = FAREWELL.as_millis() + CANCELLED.as_millis() + TICK.as_millis();
    assert!(
        waits < CLOSED.as_millis(),
        "databases are closed after the waits"
    );
    assert!(
        CLOSED.as_millis() < LAST_RESORT.as_millis(),
        "a host may end by itself"
    );
    assert!(
        LAST_RESORT.as_millis() < GONE.as_millis(),
        "a kill is in time"
    );
};

/// How a host is started.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The socket to listen on. A missing folder is created with mode 0700; the socket has 0600.
    pub socket: PathBuf,
    /// The token that workers of its own executor must send.
    pub token: String,
    /// Where workers of other executors and readers on other machines connect; `None` if there are
    /// no others.
    pub tcp: Option<TcpPlace>,
    /// The executor that the host serves; the host ends with it.
    pub executor: Option<Executor>,
    /// The host ends after this time without a session, or after three times the longest pause of
    /// its queries, if that is longer.
    pub idle: Duration,
    /// Whether the process is the host's alone. Then it kills itself if the host does not end soon
    /// enough after its executor.
    pub owns_process: bool,
}

/// Serves until the executor ends or the host is idle; then closes all databases.
///
/// # Errors
/// `StoreLocked` if another host serves this socket; `Io` if the host cannot listen.
pub fn serve(options: &ServerOptions) -> Result<()> {
    let (local, lock) = listen_on_socket(&options.socket)?;
    let (tcp, endpoint) = options.tcp.as_ref().map(listen_on_tcp).transpose()?.unzip();
    let and_tcp = endpoint
        .as_ref()
        .map_or_else(String::new, |endpoint| format!(" and {endpoint}"));
    let readers = ReaderAddress {
        machine: machine::name(),
        socket: options.socket.clone(),
        endpoint: endpoint.clone(),
        token: machine::random_token()?,
    };
    let host = Arc::new(Host::new(options.executor, endpoint).with_readers(readers));
    let watch = options.executor.map(Executor::watch);
    if let Some(executor) = options.executor.filter(|_| options.owns_process) {
        overdue::kill_after(executor, LAST_RESORT)?;
    }
    let sessions = Sessions::default();
    log::info!(
        "state host {} listens at {}{and_tcp}",
        std::process::id(),
        options.socket.display()
    );
    let listeners = Listeners { local, tcp };
    let mut maintenance = BackgroundTask::default();
    let result = accept_all(
        options,
        &listeners,
        watch.as_ref(),
        (&host, &sessions),
        &mut maintenance,
    );
    // A worker now finds no host and starts the next one. That host waits for the locks of this
    // host's databases.
    if let Err(error) = fs::remove_file(&options.socket) {
        log::debug!("removing {}: {error}", options.socket.display());
    }
    drop(listeners);
    // The lock is released after the socket is removed: the next host creates a socket as soon as
    // it has the lock.
    drop(lock);
    end(&host, &sessions, maintenance);
    log::info!("state host {} has closed its databases", std::process::id());
    result
}

/// Ends all work, and closes the databases that are not in use.
fn end(host: &Host, sessions: &Sessions, maintenance: BackgroundTask) {
    let deadline = Instant::now() + CLOSED;
    sessions.shut_down();
    // A short run takes its snapshot at its end. Without the wait below, it would never have one.
    host.snapshot_at_end();
    let is_quiet = || !sessions.any() && !host.is_uploading();
    wait_until(is_quiet, FAREWELL);
    // A restore may take long, or wait for a disk that does not answer.
    host.cancel();
    wait_until(is_quiet, CANCELLED);
    if is_quiet() {
        drop(maintenance);
    } else {
        log::warn!("a session or a snapshot does not end, and is left behind");
        maintenance.leave();
    }
    host.close_until(deadline);
}

fn accept_all(
    options: &ServerOptions,
    listeners: &Listeners,
    watch: Option<&ExecutorWatch>,
    (host, sessions): (&Arc<Host>, &Sessions),
    maintenance: &mut BackgroundTask,
) -> Result<()> {
    let idle = Arc::new(Mutex::new(IdleEnd::new(options.idle, Instant::now())));
    let mut last_maintenance = Instant::now();
    loop {
        listeners.wait(watch, TICK)?;
        if watch.is_some_and(|watch| !watch.is_alive()) {
            log::info!("the executor has ended");
            return Ok(());
        }
        for accepted in listeners.accept() {
            match accepted {
                // A connection that cannot be served ends neither the host nor other sessions.
                Ok(stream) => {
                    if let Err(error) = sessions.start(stream, host, &options.token) {
                        log::warn!("{error}");
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The connection failed, or there are no file handles for the moment: the next one
                // may succeed.
                Err(error) => {
                    log::warn!("a connection could not be accepted: {error}");
                    thread::sleep(TICK);
                }
            }
        }
        let step = idle
            .lock()
            .step(Instant::now(), sessions.any(), host.is_uploading());
        match step {
            IdleStep::Serve => {}
            // This runs in another thread, because a root may not answer.
            IdleStep::AskLimit => {
                let (host, idle, minimum) = (Arc::clone(host), Arc::clone(&idle), options.idle);
                maintenance.start(move || {
                    let limit = host.idle_limit(minimum);
                    idle.lock().set_limit(limit);
                });
            }
            IdleStep::End => {
                let seconds = idle.lock().idle(Instant::now()).as_secs();
                log::info!("no session for {seconds} s");
                return Ok(());
            }
        }
        if last_maintenance.elapsed() > (options.idle / 4).clamp(TICK, MAINTENANCE) {
            last_maintenance = Instant::now();
            let (host, idle) = (Arc::clone(host), options.idle);
            maintenance.start(move || {
                host.close_gone_roots();
                host.close_unused(idle);
                host.drop_unused_stages();
                host.log_row_counts(false);
            });
        }
    }
}
