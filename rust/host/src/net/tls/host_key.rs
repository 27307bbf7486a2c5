//! The key pair of a host.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::Ed25519KeyPair;
use holdfast_core::{Error, ErrorKind, Result};
use rustls::crypto::aws_lc_rs::sign::any_eddsa_type;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::{ServerConfig, ServerConnection};

use crate::net::tls::provider::{fingerprint, provider};
use crate::protocol::KeyFingerprint;

/// The key pair of one process. The private key is in its memory only.
pub struct HostKey {
    config: Arc<ServerConfig>,
    fingerprint: KeyFingerprint,
}

impl HostKey {
    /// Makes a key pair.
    ///
    /// # Errors
    /// `Io` if the system gives no random bytes.
    pub fn generate() -> Result<Self> {
        let (public, signing) = key_pair()?;
        Self::of(public, signing)
    }

    /// A key that presents `public` and signs with `signing`.
    fn of(public: Vec<u8>, signing: Arc<dyn SigningKey>) -> Result<Self> {
        let fingerprint = fingerprint(&public);
        let key = CertifiedKey::new(vec![CertificateDer::from(public)], signing);
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(failed)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::new(
                key,
            ))));
        // No session is resumed, so clients check the key on every connection.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self {
            config: Arc::new(config),
            fingerprint,
        })
    }

    /// The fingerprint of the public key.
    pub fn fingerprint(&self) -> KeyFingerprint {
        self.fingerprint
    }

    /// Begins the host's end of a connection.
    pub(super) fn connection(&self) -> std::result::Result<ServerConnection, rustls::Error> {
        ServerConnection::new(Arc::clone(&self.config))
    }
}

#[cfg(test)]
impl HostKey {
    /// A process that knows the public key of another, and not its private key.
    pub(super) fn impostor() -> Result<Self> {
        let ((public, _), (_, signing)) = (key_pair()?, key_pair()?);
        Self::of(public, signing)
    }
}

/// Omits the private key.
impl fmt::Debug for HostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key {}", self.fingerprint)
    }
}

/// Returns the public key (its `SubjectPublicKeyInfo`) and the signer of a new pair.
fn key_pair() -> Result<(Vec<u8>, Arc<dyn SigningKey>)> {
    let pair = Ed25519KeyPair::generate_pkcs8v1(&SystemRandom::new()).map_err(failed)?;
    let signing = any_eddsa_type(&PrivatePkcs8KeyDer::from(pair.as_ref())).map_err(failed)?;
    let public = signing
        .public_key()
        .ok_or_else(|| failed("it has no public half"))?
        .to_vec();
    Ok((public, signing))
}

fn failed(error: impl fmt::Display) -> Error {
    let text = format!("the state host cannot make a key for its connections: {error}");
    Error::new(ErrorKind::Io, text)
}
