//! What distinguishes a connection from all others, at both of its ends.

/// 32 bytes that both ends of a TLS connection derive from its handshake, and only they know (RFC
/// 8446, section 7.5).
///
/// The handshake has fresh random values of both ends and the host's key. So no other connection
/// has the same bytes, also not one of the same two processes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Channel(pub [u8; 32]);

/// What the bytes are for: other uses of the same connection would have other bytes.
pub const LABEL: &[u8] = b"EXPORTER-holdfast-writer";
