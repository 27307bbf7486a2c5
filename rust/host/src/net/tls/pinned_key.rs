//! A client that accepts one key.

use std::net::Ipv4Addr;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::verify_tls13_signature_with_raw_key;
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, PeerMisbehaved,
    SignatureScheme,
};

use crate::net::tls::provider::{fingerprint, provider};
use crate::protocol::KeyFingerprint;

/// The error of a connection to a process that has another key.
pub const OTHER_KEY: Error =
    Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure);

/// Begins a client's end of a connection to the host that has a key.
///
/// # Errors
/// Those of the TLS library's set-up.
pub fn connection(key: KeyFingerprint) -> Result<ClientConnection, Error> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(PinnedKey(key)))
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    // The key identifies the host, so no name is needed. TLS does not send an address as a name.
    let name = ServerName::IpAddress(Ipv4Addr::UNSPECIFIED.into());
    ClientConnection::new(Arc::new(config), name)
}

/// Accepts a host that has this key, and no other.
#[derive(Debug)]
struct PinnedKey(KeyFingerprint);

impl ServerCertVerifier for PinnedKey {
    fn verify_server_cert(
        &self,
        public_key: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if fingerprint(public_key) == self.0 {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(OTHER_KEY)
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _public_key: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        public_key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature_with_raw_key(
            message,
            &SubjectPublicKeyInfoDer::from(public_key.as_ref()),
            signature,
            &provider().signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider()
            .signature_verification_algorithms
            .supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
