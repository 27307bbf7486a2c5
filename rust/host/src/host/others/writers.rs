//! Which workers of other executors may open sessions here.

use std::collections::{HashMap, HashSet};

use parking_lot::Mutex;

use super::writable_root::WritableRoot;
use crate::net::tls::Channel;
use crate::net::writer_key::{ProvingEnd, WriterKey, WriterSecret};
use crate::protocol::RunNumber;

/// The keys that give workers of other executors the right to open sessions. Their secrets come
/// with requests from tasks of this host's own executor.
#[derive(Default)]
pub struct Writers(Mutex<HashMap<WritableRoot, WritersOfRun>>);

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
    /// The root.
    pub root: WritableRoot,
    /// The proof for the worker that this host has the key, too.
    pub answer: [u8; 32],
}

impl Writers {
    /// Admits the workers of a run that have the secret, unless a newer run is known. Workers of
    /// earlier runs may no longer write, unless they have it, too.
    ///
    /// `name` is the root's name in the requests of the run.
    pub fn admit(&self, root: WritableRoot, name: &str, run: RunNumber, secret: &WriterSecret) {
        let key = WriterKey::of(secret, &root.id, name);
        let mut roots = self.0.lock();
        let newest = || WritersOfRun {
            run,
            keys: HashSet::new(),
        };
        let writers = roots.entry(root).or_insert_with(newest);
        if writers.run < run {
            *writers = newest();
        }
        if writers.run == run {
            writers.keys.insert(key);
        }
    }

    /// Returns the root that the other end of a connection may write; none if the proof is not
    /// valid for this connection.
    pub fn proven(&self, proof: &[u8], channel: &Channel) -> Option<ProvenWriter> {
        let roots = self.0.lock();
        roots.iter().find_map(|(root, writers)| {
            let mut keys = writers.keys.iter();
            let key = keys.find(|key| key.is_proven(ProvingEnd::Worker, proof, channel))?;
            Some(ProvenWriter {
                root: root.clone(),
                answer: key.proof(ProvingEnd::Host, channel),
            })
        })
    }

    /// Forgets a root that is gone.
    pub fn forget(&self, root: &WritableRoot) {
        self.0.lock().remove(root);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANNEL: Channel = Channel([7; 32]);

    fn secret(text: &str) -> WriterSecret {
        WriterSecret(text.to_owned())
    }

    fn root(path: &str) -> WritableRoot {
        WritableRoot {
            path: path.into(),
            id: "an id".to_owned(),
        }
    }

    fn admit(writers: &Writers, path: &str, run: u64, text: &str) {
        writers.admit(root(path), path, RunNumber(run), &secret(text));
    }

    fn proven(writers: &Writers, text: &str, path: &str) -> Option<WritableRoot> {
        let key = WriterKey::of(&secret(text), "an id", path);
        let writer = writers.proven(&key.proof(ProvingEnd::Worker, &CHANNEL), &CHANNEL)?;
        assert!(key.is_proven(ProvingEnd::Host, &writer.answer, &CHANNEL));
        Some(writer.root)
    }

    #[test]
    fn only_secrets_of_the_newest_run_are_admitted() {
        let writers = Writers::default();
        admit(&writers, "/root", 2, "client");
        admit(&writers, "/root", 2, "function");
        admit(&writers, "/root", 1, "before");
        for text in ["client", "function"] {
            assert_eq!(proven(&writers, text, "/root"), Some(root("/root")));
            assert_eq!(proven(&writers, text, "/another"), None);
        }
        assert_eq!(proven(&writers, "before", "/root"), None);
        admit(&writers, "/root", 3, "after");
        assert_eq!(proven(&writers, "client", "/root"), None);
        assert!(proven(&writers, "after", "/root").is_some());
        writers.forget(&root("/root"));
        assert_eq!(proven(&writers, "after", "/root"), None);
    }

    #[test]
    fn copies_of_a_root_have_their_own_writers() {
        let writers = Writers::default();
        admit(&writers, "/root", 3, "secret");
        admit(&writers, "/copy", 2, "secret");
        for path in ["/root", "/copy"] {
            assert_eq!(proven(&writers, "secret", path), Some(root(path)));
        }
        writers.forget(&root("/root"));
        assert_eq!(proven(&writers, "secret", "/root"), None);
        assert!(proven(&writers, "secret", "/copy").is_some());
    }
}
