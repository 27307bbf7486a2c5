//! The certificate of a gateway.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use holdfast_core::{Error, ErrorKind, Result};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A certificate with its chain, and its key: PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, then those that signed it.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl TlsFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// `InvalidValue` if they cannot be read or do not fit each other.
    pub fn acceptor(&self) -> Result<TlsAcceptor> {
        let wrong = |file: &Path, error: &dyn std::fmt::Display| {
            let text = format!("not usable for TLS: {error}");
            Error::new(ErrorKind::InvalidValue, text).path(file)
        };
        let certificates = CertificateDer::pem_file_iter(&self.certificate)
            .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>)
            .map_err(|error| wrong(&self.certificate, &error))?;
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|e| wrong(&self.key, &e))?;
        let mut config =
            ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()
                .and_then(|builder| {
                    let builder = builder.with_no_client_auth();
                    builder.with_single_cert(certificates, key)
                })
                .map_err(|error| wrong(&self.certificate, &error))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}
