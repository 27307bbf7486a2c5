//! Encryption between machines: TLS 1.3 with keys whose fingerprints are in the root.
//!
//! A host makes a key pair at its start and publishes the key's fingerprint beside its address. A
//! client accepts exactly that key, and the host proves in the handshake that it has it. The keys
//! are raw public keys (RFC 7250). So there are no certificates, and no names, dates or authorities
//! to configure.

mod channel;
mod host_key;
mod pinned_key;
mod provider;
mod stream;

pub use channel::Channel;
pub use host_key::HostKey;
pub use stream::TlsStream;
