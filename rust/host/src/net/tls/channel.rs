//! A value that distinguishes a connection from all others, the same at both ends.

/// 32 bytes that both ends of a TLS connection derive from its handshake, and that only they know
/// (RFC 8446, section 7.5).
///
/// The handshake has fresh random values of both ends and the host's key. So no two connections
/// have the same bytes, even if they are between the same two processes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Channel(pub [u8; 32]);

/// The label from which TLS derives these bytes. Another label would give other bytes.
pub const LABEL: &[u8] = b"EXPORTER-holdfast-writer";
