//! What a gateway is started with.

mod limits;
mod tls;
mod token;

use std::net::{SocketAddr, ToSocketAddrs};

use holdfast_core::{Error, ErrorKind, Result};
use holdfast_host::reader::{CacheSettings, Offline};
use holdfast_host::root::StorageOptions;

pub use limits::Limits;
pub use tls::TlsFiles;
pub use token::Token;

/// What a gateway is started with.
#[derive(Debug, Clone)]
pub struct GatewaySettings {
    /// The roots.
    pub roots: Vec<RootSettings>,
    /// Where to listen: `address:port`.
    pub listen: String,
    /// What clients must send; none: all local processes may read.
    pub token: Option<Token>,
    /// Certificate and key; none: connections are not encrypted.
    pub tls: Option<TlsFiles>,
    /// Whether tokens and rows may cross a network unencrypted.
    pub insecure: bool,
    /// Whether reads use copies of partitions that the gateway makes.
    pub offline: Offline,
    /// Where the copies of each root are, and how much of the disk they may take.
    pub cache: CacheSettings,
    /// What clients may use.
    pub limits: Limits,
}

/// A root that a gateway serves.
#[derive(Debug, Clone)]
pub struct RootSettings {
    /// The name in paths.
    pub name: String,
    /// The folder, or the address in an object store.
    pub address: String,
    /// Options of the object store.
    pub options: StorageOptions,
}

impl GatewaySettings {
    /// Returns the address to listen on, if these settings do not open the state to a network by
    /// accident.
    ///
    /// # Errors
    /// `InvalidValue` says what is missing.
    pub fn checked_address(&self) -> Result<SocketAddr> {
        let wrong = |text: String| Error::new(ErrorKind::InvalidValue, text);
        let listen = &self.listen;
        let resolved = listen.to_socket_addrs();
        let resolved: Vec<SocketAddr> = resolved
            .map_err(|error| {
                wrong(format!(
                    "listen is {listen:?}: {error}. Give an address and a port: 127.0.0.1:8474"
                ))
            })?
            .collect();
        let first = resolved
            .first()
            .ok_or_else(|| wrong(format!("listen is {listen:?}, which is no address")))?;
        let is_local = |address: &SocketAddr| address.ip().to_canonical().is_loopback();
        if resolved.iter().all(is_local) {
            return Ok(*first);
        }
        if self.token.is_none() {
            return Err(wrong(format!(
                "listen is {listen:?}, which other machines can reach: give a token file"
            )));
        }
        if self.tls.is_none() && !self.insecure {
            return Err(wrong(format!(
                "listen is {listen:?}, which other machines can reach: give a certificate and its \
                 key, or say insecure if a proxy encrypts"
            )));
        }
        Ok(*first)
    }

    /// Checks that each root has a name of its own that can be part of a path.
    ///
    /// # Errors
    /// `InvalidValue` names the root.
    pub fn check_names(&self) -> Result<()> {
        if self.roots.is_empty() {
            return Err(Error::new(
                ErrorKind::InvalidValue,
                "give at least one root",
            ));
        }
        for (n, root) in self.roots.iter().enumerate() {
            let name = &root.name;
            let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
            if name.is_empty() || !name.chars().all(fits) || name.starts_with('.') {
                let text = format!(
                    "root name {name:?}: use ASCII letters, digits, '_', '-' or '.'; give the root \
                     as NAME=ROOT"
                );
                return Err(Error::new(ErrorKind::InvalidValue, text));
            }
            if self.roots[..n].iter().any(|other| other.name == *name) {
                let text = format!("two roots have the name {name:?}: give one as NAME=ROOT");
                return Err(Error::new(ErrorKind::InvalidValue, text));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(listen: &str) -> GatewaySettings {
        GatewaySettings {
            roots: Vec::new(),
            listen: listen.to_owned(),
            token: None,
            tls: None,
            insecure: false,
            offline: Offline::Never,
            cache: CacheSettings::default(),
            limits: Limits::default(),
        }
    }

    #[test]
    fn other_machines_need_a_token_and_encryption() {
        assert!(settings("127.0.0.1:0").checked_address().is_ok());
        assert!(settings("[::1]:0").checked_address().is_ok());
        for open in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
            let mut settings = settings(open);
            let error = settings.checked_address().expect_err("open").to_string();
            assert!(error.contains("token file"), "{error}");
            settings.token = Some(Token::new("0123456789abcdef").expect("long enough"));
            let error = settings.checked_address().expect_err("plain").to_string();
            assert!(error.contains("certificate"), "{error}");
            settings.insecure = true;
            assert!(settings.checked_address().is_ok());
        }
    }

    #[test]
    fn names_of_roots_differ_and_fit_into_a_path() {
        let named = |names: &[&str]| {
            let mut settings = settings("127.0.0.1:0");
            settings.roots = names
                .iter()
                .map(|name| RootSettings {
                    name: (*name).to_owned(),
                    address: String::new(),
                    options: StorageOptions::default(),
                })
                .collect();
            settings.check_names()
        };
        assert!(named(&["a", "b-1.x"]).is_ok());
        for wrong in [&[][..], &["a", "a"], &["a/b"], &[""], &[".."]] {
            assert!(named(wrong).is_err(), "{wrong:?}");
        }
    }
}
