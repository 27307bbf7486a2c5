//! What clients must send.

use std::fmt;
use std::path::Path;

use axum::http::HeaderValue;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use holdfast_core::{Error, ErrorKind, Result};
use subtle::ConstantTimeEq;

/// The shortest token.
const SHORTEST: usize = 16;

/// The secret that clients must send.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// Checks a token.
    ///
    /// # Errors
    /// `InvalidValue` if it is too short, or has characters that cannot be sent.
    pub fn new(text: &str) -> Result<Self> {
        let text = text.trim();
        let fits = text.bytes().all(|byte| byte.is_ascii_graphic());
        if text.len() < SHORTEST || !fits {
            let text = format!(
                "a token has at least {SHORTEST} printable ASCII characters; this makes one: \
                 openssl rand -hex 32"
            );
            return Err(Error::new(ErrorKind::InvalidValue, text));
        }
        Ok(Self(text.to_owned()))
    }

    /// Reads a token from a file.
    ///
    /// # Errors
    /// `Io` if the file cannot be read; as [`Token::new`].
    pub fn from_file(file: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(file).map_err(|error| {
            Error::new(ErrorKind::Io, format!("the token cannot be read: {error}")).path(file)
        })?;
        Self::new(&text).map_err(|error| error.path(file))
    }

    /// Whether a header `Authorization` has the token: as a bearer, or as the password that a
    /// browser asks for. The time does not depend on where the first difference is.
    pub fn is_in(&self, authorization: &HeaderValue) -> bool {
        let Some((scheme, sent)) = authorization.to_str().ok().and_then(|t| t.split_once(' '))
        else {
            return false;
        };
        if scheme.eq_ignore_ascii_case("bearer") {
            return self.is(sent.trim().as_bytes());
        }
        if scheme.eq_ignore_ascii_case("basic")
            && let Ok(sent) = STANDARD.decode(sent.trim())
            && let Some(colon) = sent.iter().position(|byte| *byte == b':')
        {
            return self.is(&sent[colon + 1..]);
        }
        false
    }

    fn is(&self, sent: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(sent).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_a_bearer_or_a_password() {
        let token = Token::new(" 0123456789abcdef\n").expect("long enough");
        let is = |value: &str| token.is_in(&HeaderValue::from_str(value).expect("a header"));
        assert!(is("Bearer 0123456789abcdef"));
        let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
        assert!(is(&basic("anyone:0123456789abcdef")));
        assert!(is(&basic(":0123456789abcdef")));
        for wrong in [
            "Bearer 0123456789abcdeF",
            "Bearer 0123456789abcdef0",
            "Bearer",
            "Bearer ",
            "0123456789abcdef",
            "Basic 0123456789abcdef",
            "Digest 0123456789abcdef",
        ] {
            assert!(!is(wrong), "{wrong}");
        }
        assert!(!is(&basic("0123456789abcdef")));
    }

    #[test]
    fn short_tokens_are_refused() {
        for wrong in [
            "",
            "0123456789abcde",
            "0123456789 abcdef",
            "0123456789abcdéf",
        ] {
            assert!(Token::new(wrong).is_err(), "{wrong}");
        }
    }
}
