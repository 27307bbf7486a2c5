//! What clients may use.

use std::time::Duration;

/// What clients may use of a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Requests that read at the same time; others wait a second, then they are refused.
    pub requests: usize,
    /// Connections; others wait to be accepted.
    pub connections: usize,
    /// Bytes of a request's body.
    pub body_bytes: usize,
    /// Keys of a request.
    pub keys: usize,
    /// How long a request may take, and how long a scan may wait for its client.
    pub timeout: Duration,
    /// How long a scan may take.
    pub scan: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests: 64,
            connections: 1024,
            body_bytes: 4 << 20,
            keys: 10_000,
            timeout: Duration::from_secs(30),
            scan: Duration::from_secs(600),
        }
    }
}
