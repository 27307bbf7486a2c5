//! Where a host listens for other machines, and the fingerprint of its key.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The address of a host, and the fingerprint of the key that the process there must have.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TcpEndpoint {
    /// `name:port`.
    pub address: String,
    /// The fingerprint of the host's key.
    pub key: KeyFingerprint,
}

impl fmt::Display for TcpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

/// The SHA-256 of a public key (its `SubjectPublicKeyInfo`); hexadecimal in text and JSON.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyFingerprint(pub [u8; 32]);

impl fmt::Display for KeyFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl From<KeyFingerprint> for String {
    fn from(fingerprint: KeyFingerprint) -> Self {
        fingerprint.to_string()
    }
}

impl TryFrom<String> for KeyFingerprint {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a fingerprint (64 hexadecimal digits)");
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut bytes = [0; 32];
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprint_is_written_and_read_as_hex() {
        let fingerprint = KeyFingerprint(std::array::from_fn(|n| n as u8 * 8));
        let json = serde_json::to_string(&fingerprint).expect("serializes");
        assert_eq!(json.len(), 66);
        let read: KeyFingerprint = serde_json::from_str(&json).expect("parses");
        assert_eq!(read, fingerprint);
        for wrong in [
            "",
            "00",
            &"0z".repeat(32),
            &"+1".repeat(32),
            &"é".repeat(32),
        ] {
            assert!(
                KeyFingerprint::try_from(wrong.to_owned()).is_err(),
                "{wrong}"
            );
        }
    }
}
