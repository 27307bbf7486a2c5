//! Which workers of other executors may open sessions here.

use std::collections::{HashMap, HashSet};

use parking_lot::Mutex;

use crate::net::tls::Channel;
use crate::net::writer_key::{ProvingEnd, WriterKey, WriterSecret};
use crate::protocol::RunNumber;

/// The keys that workers of other executors may have, as tasks of this host's own executor have
/// shown.
#[derive(Default)]
pub struct Writers(Mutex<HashMap<String, WritersOfRun>>);

/// The keys of the newest run of a root.
///
/// There are several if operators of one query were called in several processes: a Spark Connect
/// client, and the process of its `foreachBatch` function.
struct WritersOfRun {
    run: RunNumber,
    keys: HashSet<WriterKey>,
}

/// A worker of another executor that has proved that it has a root's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvenWriter {
    /// The id of the root.
    pub root_id: String,
    /// What proves to the worker that this host has the key, too.
    pub answer: [u8; 32],
}

impl Writers {
    /// Admits the workers of a run that have the secret. Those of earlier runs may not write any
    /// more, unless they have it, too.
    pub fn admit(&self, root_id: &str, run: RunNumber, secret: &WriterSecret) {
        let mut roots = self.0.lock();
        let newest = || WritersOfRun {
            run,
            keys: HashSet::new(),
        };
        let writers = roots.entry(root_id.to_owned()).or_insert_with(newest);
        if writers.run < run {
            *writers = newest();
        }
        if writers.run == run {
            writers.keys.insert(WriterKey::of(secret, root_id));
        }
    }

    /// Returns the root that the other end of a connection may write; none if its proof is not
    /// valid there.
    pub fn proven(&self, proof: &[u8], channel: &Channel) -> Option<ProvenWriter> {
        let roots = self.0.lock();
        roots.iter().find_map(|(root_id, writers)| {
            let mut keys = writers.keys.iter();
            let key = keys.find(|key| key.is_proven(ProvingEnd::Worker, proof, channel))?;
            Some(ProvenWriter {
                root_id: root_id.clone(),
                answer: key.proof(ProvingEnd::Host, channel),
            })
        })
    }

    /// Forgets a root that is gone.
    pub fn forget(&self, root_id: &str) {
        self.0.lock().remove(root_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANNEL: Channel = Channel([7; 32]);

    fn secret(text: &str) -> WriterSecret {
        WriterSecret(text.to_owned())
    }

    fn root_of(writers: &Writers, text: &str, root_id: &str) -> Option<String> {
        let key = WriterKey::of(&secret(text), root_id);
        let writer = writers.proven(&key.proof(ProvingEnd::Worker, &CHANNEL), &CHANNEL)?;
        assert!(key.is_proven(ProvingEnd::Host, &writer.answer, &CHANNEL));
        Some(writer.root_id)
    }

    #[test]
    fn only_secrets_of_the_newest_run_are_admitted() {
        let writers = Writers::default();
        writers.admit("a root", RunNumber(2), &secret("client"));
        writers.admit("a root", RunNumber(2), &secret("function"));
        writers.admit("a root", RunNumber(1), &secret("before"));
        for text in ["client", "function"] {
            let root = root_of(&writers, text, "a root");
            assert_eq!(root.as_deref(), Some("a root"), "{text}");
            assert_eq!(root_of(&writers, text, "another root"), None);
        }
        assert_eq!(root_of(&writers, "before", "a root"), None);
        writers.admit("a root", RunNumber(3), &secret("after"));
        assert_eq!(root_of(&writers, "client", "a root"), None);
        assert!(root_of(&writers, "after", "a root").is_some());
        writers.forget("a root");
        assert_eq!(root_of(&writers, "after", "a root"), None);
    }
}
