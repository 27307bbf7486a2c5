//! Accepts connections, and ends them after their requests.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures::future::{Either, select};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::write_limit::WriteLimit;

/// How long a client may take for the TLS handshake, and then to send the head of a request. An
/// idle connection is closed after this time.
const HEAD: Duration = Duration::from_secs(30);
/// The longest head of a request.
const HEAD_BYTES: usize = 64 << 10;
/// How long requests go on when the gateway ends.
const FAREWELL: Duration = Duration::from_secs(5);
/// The pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// The listener with what its connections share.
pub struct Connections {
    /// The listener.
    pub listener: TcpListener,
    /// Encrypts connections; none: they are not encrypted.
    pub tls: Option<TlsAcceptor>,
    /// Answers requests.
    pub router: Router,
    /// The most connections.
    pub limit: usize,
    /// How long a client may accept no bytes of a response.
    pub patience: Duration,
}

impl Connections {
    /// Serves until `stop` is sent or dropped, then lets requests end.
    pub async fn serve(self, stop: oneshot::Receiver<()>) {
        let permits = Arc::new(Semaphore::new(self.limit));
        let graceful = GracefulShutdown::new();
        let accept = async {
            loop {
                let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
                    return;
                };
                match self.listener.accept().await {
                    Ok((stream, _)) => self.start(stream, permit, graceful.watcher()),
                    // The connection failed, or there are no file handles for the moment.
                    Err(error) => {
                        log::warn!("a connection could not be accepted: {error}");
                        sleep(PAUSE).await;
                    }
                }
            }
        };
        if let Either::Left(_) = select(pin!(accept), stop).await {
            log::error!("the gateway accepts no more connections");
        }
        drop(self.listener);
        if timeout(FAREWELL, graceful.shutdown()).await.is_err() {
            log::warn!("requests do not end, and are left behind");
        }
    }

    fn start(&self, stream: TcpStream, permit: OwnedSemaphorePermit, watcher: Watcher) {
        // Rows are small, and a client waits for each.
        if let Err(error) = stream.set_nodelay(true) {
            log::debug!("a connection may delay small responses: {error}");
        }
        let (tls, router) = (self.tls.clone(), self.router.clone());
        // Without this limit, a client that does not read holds its connection for ever.
        let stream = WriteLimit::new(stream, self.patience);
        tokio::spawn(async move {
            match tls {
                None => converse(stream, router, watcher).await,
                Some(tls) => match timeout(HEAD, tls.accept(stream)).await {
                    Ok(Ok(stream)) => converse(stream, router, watcher).await,
                    Ok(Err(error)) => log::debug!("a TLS handshake failed: {error}"),
                    Err(_) => log::debug!("a TLS handshake took too long"),
                },
            }
            drop(permit);
        });
    }
}

async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    router: Router,
    watcher: Watcher,
) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    if let Err(error) = watcher.watch(connection).await {
        log::debug!("a connection failed: {error}");
    }
}
