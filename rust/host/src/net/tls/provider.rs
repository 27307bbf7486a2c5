//! The cryptography of a connection.

use std::sync::{Arc, LazyLock};

use aws_lc_rs::digest::{SHA256, digest};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::default_provider;

use crate::protocol::KeyFingerprint;

static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| Arc::new(default_provider()));

/// The provider of all connections.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::clone(&PROVIDER)
}

/// Returns the fingerprint of a public key.
pub fn fingerprint(public_key: &[u8]) -> KeyFingerprint {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, public_key).as_ref());
    KeyFingerprint(bytes)
}
