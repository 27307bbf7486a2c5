//! Where the hosts of the tests listen.

use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::support::wait::wait_until;
use holdfast_host::server::TcpPlace;

/// The token of all hosts.
pub const TOKEN: &str = "a token";

/// The secret of the driver.
pub const SECRET: &str = "5ec7e70fa11d71ve75";

pub fn loopback() -> TcpPlace {
    TcpPlace {
        name: "127.0.0.1".into(),
        bind: None,
    }
}

/// Waits until a host listens at the socket.
pub fn wait_for_host(socket: &Path) {
    wait_until(
        || UnixStream::connect(socket).is_ok(),
        || format!("no host listens at {}", socket.display()),
    );
}
