//! A gateway, from its start to its end.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use holdfast_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use super::access::Access;
use super::connections::Connections;
use super::router::router;
use crate::settings::GatewaySettings;
use crate::state::{GatewayState, WATCHING};

/// How long reads may go on after their connections have ended.
const LEFT_BEHIND: Duration = Duration::from_secs(1);

/// A gateway that serves. It ends when it is dropped.
pub struct Gateway {
    address: SocketAddr,
    encrypts: bool,
    running: Mutex<Option<Running>>,
}

struct Running {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Gateway {
    /// Connects to the roots, and starts to serve.
    ///
    /// # Errors
    /// `InvalidValue` for settings that do not fit, or that would open the state to a network
    /// without a token or encryption; `Io` if the address is in use; those of
    /// `StateReader::connect`.
    pub fn start(settings: &GatewaySettings) -> Result<Self> {
        settings.check_names()?;
        let address = settings.checked_address()?;
        let tls = settings.tls.as_ref().map(|files| files.acceptor());
        let tls = tls.transpose()?;
        let access = match &settings.token {
            Some(token) => Access::Token(token.clone()),
            None => Access::Local,
        };
        let state = Arc::new(GatewayState::connect(settings)?);
        let io = |what: &str, error: std::io::Error| {
            Error::new(ErrorKind::Io, format!("the gateway cannot {what}: {error}"))
        };
        let listener = TcpListener::bind(address)
            .and_then(|listener| {
                listener.set_nonblocking(true)?;
                Ok(listener)
            })
            .map_err(|error| io(&format!("listen at {address}"), error))?;
        let address = listener.local_addr().map_err(|error| io("listen", error))?;
        // There are more threads than permits, so work that has a permit never waits for a thread.
        let threads = 2 * settings.limits.requests + WATCHING;
        let runtime = Builder::new_multi_thread()
            .thread_name("gateway")
            .max_blocking_threads(threads)
            .enable_io()
            .enable_time()
            .build()
            .map_err(|error| io("start its threads", error))?;
        let listener = {
            let _context = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map_err(|error| io("listen", error))?
        };
        let connections = Connections {
            listener,
            tls,
            router: router(&state, access),
            limit: settings.limits.connections,
            patience: settings.limits.timeout,
        };
        let encrypts = settings.tls.is_some();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new()
            .name("gateway".to_owned())
            .spawn(move || serve(runtime, connections, stopped))
            .map_err(|error| io("start its threads", error))?;
        Ok(Self {
            address,
            encrypts,
            running: Mutex::new(Some(Running { stop, thread })),
        })
    }

    /// Where the gateway listens.
    pub fn url(&self) -> String {
        let scheme = if self.encrypts { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Ends the gateway: requests that are being answered have a few seconds.
    pub fn stop(&self) {
        let Some(running) = self.running.lock().take() else {
            return;
        };
        // The other end is gone if the gateway has ended by itself.
        running.stop.send(()).ok();
        if running.thread.join().is_err() {
            log::error!("the gateway's thread has panicked");
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.stop();
    }
}

fn serve(runtime: Runtime, connections: Connections, stop: oneshot::Receiver<()>) {
    runtime.block_on(connections.serve(stop));
    runtime.shutdown_timeout(LEFT_BEHIND);
}
