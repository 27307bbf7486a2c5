//! How a worker proves to a host on another machine that it may open sessions.
//!
//! ```text
//! secret    random, made by the driver; in the pickled function of its tasks
//! key       HMAC-SHA-256(secret, KEY, root id): the right to write one root
//! channel   32 bytes that both ends of a connection derive from its handshake
//! proof     HMAC-SHA-256(key, channel): the content of the `Hello`
//! ```
//!
//! The channel contains random values of both ends and the host's key, so the handshake is the
//! host's challenge: a proof is valid on its own connection only. Neither a secret nor a key is
//! ever sent to another machine. `docs/design/security.md` has the argument.

use std::fmt;

use aws_lc_rs::hmac;
use serde::{Deserialize, Serialize};

use crate::net::tls::Channel;

/// Keeps keys apart from what else is derived with HMAC; the number is that of the protocol.
const KEY: &[u8] = b"holdfast writer 1 ";

/// A driver's secret. All runs that one driver process starts have the same one.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WriterSecret(pub String);

/// Omits the secret, which must not be logged.
impl fmt::Debug for WriterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriterSecret").finish_non_exhaustive()
    }
}

/// The right to open sessions of one root.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct WriterKey([u8; 32]);

impl WriterKey {
    /// The key for the root of this id.
    pub fn of(secret: &WriterSecret, root_id: &str) -> Self {
        Self(sign(secret.0.as_bytes(), &[KEY, root_id.as_bytes()]))
    }

    /// What shows the host at the other end of a connection that this end has the key.
    pub fn proof(&self, channel: &Channel) -> [u8; 32] {
        sign(&self.0, &[&channel.0])
    }

    /// Whether the other end of a connection has the key.
    pub fn is_proven(&self, proof: &[u8], channel: &Channel) -> bool {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        hmac::verify(&key, &channel.0, proof).is_ok()
    }
}

/// Omits the key, which must not be logged.
impl fmt::Debug for WriterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriterKey").finish_non_exhaustive()
    }
}

fn sign(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    parts.iter().for_each(|part| context.update(part));
    let tag = context.sign();
    let mut bytes = [0; 32];
    bytes.copy_from_slice(tag.as_ref());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(secret: &str, root_id: &str) -> WriterKey {
        WriterKey::of(&WriterSecret(secret.to_owned()), root_id)
    }

    #[test]
    fn proof_is_for_one_secret_one_root_and_one_channel() {
        let (mine, channel) = (key("secret", "root"), Channel([1; 32]));
        let proof = mine.proof(&channel);
        assert!(mine.is_proven(&proof, &channel));
        assert!(!mine.is_proven(&proof, &Channel([2; 32])));
        assert!(!mine.is_proven(&proof[..31], &channel));
        assert!(!mine.is_proven(&[], &channel));
        for other in [key("another", "root"), key("secret", "another")] {
            assert!(!other.is_proven(&proof, &channel));
        }
    }

    /// Hosts and workers of other versions must not agree by chance: a change of the derivation
    /// needs another number in [`KEY`].
    #[test]
    fn derivation_has_not_changed() {
        let proof = key("secret", "root").proof(&Channel([1; 32]));
        let digits: String = proof.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            digits,
            "5eab4f1d2179ce56f6e606896f7686dd0d03be67ee7be22dc906fe8f0f043e57"
        );
    }

    #[test]
    fn secret_and_key_are_not_printed() {
        let secret = WriterSecret("5ec7e7".to_owned());
        let printed = format!("{secret:?} {:?}", WriterKey::of(&secret, "root"));
        assert_eq!(printed, "WriterSecret { .. } WriterKey { .. }");
    }
}
