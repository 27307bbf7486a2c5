//! 128-bit digests of an epoch's changes, of the chain of all epochs, and of a task's input.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_128};

/// An xxh3-128 digest, big-endian; hexadecimal in text and JSON, 16 bytes in binary formats.
///
/// It detects mistakes and damage, not attacks: an attacker who can write to the root can change
/// the state in any case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 16]);

impl Digest {
    /// The chain before an operator's first epoch.
    pub const ZERO: Self = Self([0; 16]);

    /// Returns the digest of some bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(xxh3_128(bytes).to_be_bytes())
    }

    /// Returns the digest of a hasher's input.
    #[must_use]
    pub fn from_hasher(hasher: &Xxh3Default) -> Self {
        Self(hasher.digest128().to_be_bytes())
    }

    /// Returns the chain after an epoch. `self`: the chain before it; `digest`: the epoch's digest.
    #[must_use]
    pub fn chain(self, digest: Self) -> Self {
        let mut both = [0; 32];
        both[..16].copy_from_slice(&self.0);
        both[16..].copy_from_slice(&digest.0);
        Self::of(&both)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            self.0.serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let text = String::deserialize(deserializer)?;
            Self::try_from(text).map_err(de::Error::custom)
        } else {
            Deserialize::deserialize(deserializer).map(Self)
        }
    }
}

impl TryFrom<String> for Digest {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a digest (32 hexadecimal digits)");
        if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        u128::from_str_radix(&text, 16)
            .map(|number| Self(number.to_be_bytes()))
            .map_err(|_| wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_written_and_read_as_hex() {
        let digest = Digest::of(b"holdfast");
        let json = serde_json::to_string(&digest).expect("serializes");
        assert_eq!(json.len(), 34);
        assert_eq!(
            serde_json::from_str::<Digest>(&json).expect("parses"),
            digest
        );
        for wrong in [
            "\"\"",
            "\"zz\"",
            "\"+0000000000000000000000000000000\"",
            "\"ä00000000000000000000000000000\"",
        ] {
            assert!(serde_json::from_str::<Digest>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_chain_depends_on_order() {
        let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
        assert_ne!(
            Digest::ZERO.chain(a).chain(b),
            Digest::ZERO.chain(b).chain(a)
        );
    }
}
