//! How a worker and a host of another executor prove to each other that they belong to one query.
//!
//! ```text
//! secret    random, made by the driver; in the pickled function of its tasks
//! key       HMAC-SHA-256(secret, KEY, length of the root id, root id, root): the right to write
//!           one root
//! channel   32 bytes that both ends of a connection derive from its handshake
//! proof     HMAC-SHA-256(key, label of the end, channel): the content of `Hello` and `Welcome`
//! ```
//!
//! The channel depends on random values of both ends and on the host's TLS key, so the handshake is
//! the challenge for both: a proof is valid on its own connection only. Each end has its own label,
//! so that a host cannot return the worker's proof as its own. A worker or a host never sends a
//! secret or a writer key to another machine. `docs/design/security.md` has the argument.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use serde::{Deserialize, Serialize};

use crate::net::tls::Channel;

/// Separates keys from other values that are derived with HMAC. A change of the derivation needs
/// another number.
const KEY: &[u8] = b"holdfast writer 2 ";

/// The end of a connection that makes a proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProvingEnd {
    /// A worker: it may open sessions.
    Worker,
    /// A host: a task of its own executor has sent it the secret.
    Host,
}

impl ProvingEnd {
    const fn label(self) -> &'static [u8] {
        match self {
            Self::Worker => b"worker ",
            Self::Host => b"host ",
        }
    }
}

/// The secret of all states that one process makes: the driver, or under Spark Connect the client
/// and the process of a `foreachBatch` function.
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
    /// Returns the key for a root. `root` is its name in the sessions' requests. The name is part
    /// of the key because copies of a root have the same id.
    pub fn of(secret: &WriterSecret, root_id: &str, root: &str) -> Self {
        let length = (root_id.len() as u64).to_le_bytes();
        let parts = [KEY, &length, root_id.as_bytes(), root.as_bytes()];
        Self(sign(secret.0.as_bytes(), &parts))
    }

    /// Returns the proof that `end`, which is this end of a connection, has the key.
    pub fn proof(&self, end: ProvingEnd, channel: &Channel) -> [u8; 32] {
        sign(&self.0, &[end.label(), &channel.0])
    }

    /// Whether `end`, which is the other end of a connection, has the key. The comparison takes
    /// the same time wherever a wrong proof differs.
    pub fn is_proven(&self, end: ProvingEnd, proof: &[u8], channel: &Channel) -> bool {
        verify_slices_are_equal(&self.proof(end, channel), proof).is_ok()
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
    use super::ProvingEnd::{Host, Worker};
    use super::*;

    fn key(secret: &str, root_id: &str, root: &str) -> WriterKey {
        WriterKey::of(&WriterSecret(secret.to_owned()), root_id, root)
    }

    #[test]
    fn proof_is_for_one_secret_one_root_one_channel_and_one_end() {
        let (mine, channel) = (key("secret", "id", "/root"), Channel([1; 32]));
        for (end, other_end) in [(Worker, Host), (Host, Worker)] {
            let proof = mine.proof(end, &channel);
            assert!(mine.is_proven(end, &proof, &channel));
            assert!(!mine.is_proven(other_end, &proof, &channel));
            assert!(!mine.is_proven(end, &proof, &Channel([2; 32])));
            assert!(!mine.is_proven(end, &proof[..31], &channel));
            assert!(!mine.is_proven(end, &[], &channel));
            for other in [
                key("another", "id", "/root"),
                key("secret", "another", "/root"),
                key("secret", "id", "/copy"),
                key("secret", "id/", "root"),
            ] {
                assert!(!other.is_proven(end, &proof, &channel));
            }
        }
    }

    /// Hosts and workers whose derivations differ must have different numbers in [`KEY`].
    #[test]
    fn derivation_has_not_changed() {
        let digits = [Worker, Host].map(|end| -> String {
            let proof = key("secret", "id", "/root").proof(end, &Channel([1; 32]));
            proof.iter().map(|byte| format!("{byte:02x}")).collect()
        });
        assert_eq!(
            digits,
            [
                "6448b2f863e9c104b0ba3c21f2cbf83af911acc9ca963b2bb8ef62a2afb8e4e5",
                "3228f27206df00390ae399dda344b4b4172aca7e4feb80ca779a0cb93cd16021",
            ]
        );
    }

    #[test]
    fn secret_and_key_are_not_printed() {
        let secret = WriterSecret("5ec7e7".to_owned());
        let printed = format!("{secret:?} {:?}", WriterKey::of(&secret, "id", "/root"));
        assert_eq!(printed, "WriterSecret { .. } WriterKey { .. }");
    }
}
