//! `readers/<operator>/<partition>/<run>.<generation>`: where a reader finds the host of a
//! partition.
//!
//! The host that owns a partition in a term puts the file once. The token in it permits reads, but
//! no sessions.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::protocol::{OperatorName, PartitionId, TcpEndpoint, Term};
use crate::root::names;
use crate::root::objects::Objects;

/// How a reader reaches a host.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReaderAddress {
    /// The machine on which the socket is.
    pub machine: String,
    /// The socket, for readers on that machine.
    pub socket: PathBuf,
    /// For readers on other machines; none if the host does not listen on TCP.
    pub endpoint: Option<TcpEndpoint>,
    /// The token that a reader must present.
    pub token: String,
}

/// Omits the token, which must not be logged.
impl std::fmt::Debug for ReaderAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReaderAddress")
            .field("machine", &self.machine)
            .field("socket", &self.socket)
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

/// The newest address of a partition's host.
pub type FoundAddress = (OperatorName, PartitionId, Arc<ReaderAddress>);

/// The pause after a first failure. Each further failure doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(30);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// When an address is published again after a failure.
///
/// A session publishes the address of its partition. Without a pause, it would wait in each
/// micro-batch for a store that does not answer. A failure for one partition is expected to repeat
/// for all others, so the root has one pause.
#[derive(Debug, Clone, Copy)]
struct PublicationPause {
    length: Duration,
    until: Instant,
}

impl PublicationPause {
    /// The pause after a failure at `now`, which follows `before`.
    fn after(before: Option<Self>, now: Instant) -> Self {
        let length = before.map_or(FIRST_PAUSE, |before| (before.length * 2).min(LONGEST_PAUSE));
        Self {
            length,
            until: now + length,
        }
    }
}

/// An address that has been read, and its term.
type KnownAddress = (Term, Arc<ReaderAddress>);

/// The addresses of a root's hosts for readers.
#[derive(Debug)]
pub struct ReaderAddresses {
    objects: Arc<Objects>,
    /// None if the last publication succeeded.
    pause: Mutex<Option<PublicationPause>>,
    /// The terms whose address this process has put.
    published: Mutex<HashMap<(OperatorName, PartitionId), Term>>,
    /// The newest addresses that this process has read. The address of a term never changes.
    read: Mutex<HashMap<(OperatorName, PartitionId), KnownAddress>>,
}

impl ReaderAddresses {
    /// The addresses of a root.
    pub(in crate::root) fn new(objects: Arc<Objects>) -> Self {
        Self {
            objects,
            pause: Mutex::default(),
            published: Mutex::default(),
            read: Mutex::default(),
        }
    }

    /// Puts the address of the host that owns a partition in a term, once, and removes older ones.
    ///
    /// `now`: the current time. During the pause after a failure the call succeeds without a put.
    ///
    /// # Errors
    /// `Io` if the disk or the object store fails.
    pub fn publish(
        &self,
        operator: &OperatorName,
        partition: PartitionId,
        term: Term,
        address: &ReaderAddress,
        now: Instant,
    ) -> Result<()> {
        let key = (operator.clone(), partition);
        if self.published.lock().get(&key) == Some(&term) {
            return Ok(());
        }
        let before = {
            let mut pause = self.pause.lock();
            match &mut *pause {
                Some(pause) if now < pause.until => return Ok(()),
                // One session tries. The others still pause, and do not wait for its result.
                Some(pause) => pause.until = now + pause.length,
                None => {}
            }
            *pause
        };
        let tried = Instant::now();
        let put = self.put(operator, partition, term, address);
        // Concurrent failures of several partitions count as one.
        let failed = put.is_err();
        *self.pause.lock() = failed.then(|| PublicationPause::after(before, now + tried.elapsed()));
        if !failed {
            self.published.lock().insert(key, term);
        }
        put
    }

    fn put(
        &self,
        operator: &OperatorName,
        partition: PartitionId,
        term: Term,
        address: &ReaderAddress,
    ) -> Result<()> {
        let json = serde_json::to_vec(address).map_err(|error| {
            Error::new(ErrorKind::Serialization, format!("an address: {error}"))
        })?;
        let older = self.terms(operator, partition)?;
        let name = names::reader(operator, partition, term);
        self.objects.put_private(&name, &json)?;
        for other in older.into_iter().filter(|other| *other < term) {
            self.objects
                .remove(&names::reader(operator, partition, other))?;
        }
        Ok(())
    }

    /// Returns the newest address of a partition's host; none if no host has put one.
    ///
    /// # Errors
    /// `Restore` for an address that cannot be read, `Io` if the disk or the object store fails.
    pub fn newest(
        &self,
        operator: &OperatorName,
        partition: PartitionId,
    ) -> Result<Option<Arc<ReaderAddress>>> {
        let newest = self.terms(operator, partition)?.into_iter().max();
        newest.map_or(Ok(None), |term| {
            self.of_term((operator.clone(), partition), term)
        })
    }

    /// Returns the newest addresses of all partitions' hosts, in order. The root is listed once,
    /// and only addresses that are new are read.
    ///
    /// An address that cannot be read, or was removed meanwhile, is left out.
    ///
    /// # Errors
    /// `Io` if the disk or the object store fails; the error of an address if none can be read.
    pub fn all(&self) -> Result<Vec<FoundAddress>> {
        self.newest_below(names::READERS)
    }

    /// As [`ReaderAddresses::all`], of one operator.
    ///
    /// # Errors
    /// As [`ReaderAddresses::all`].
    pub fn of_operator(&self, operator: &OperatorName) -> Result<Vec<FoundAddress>> {
        self.newest_below(&names::readers_of(operator))
    }

    fn newest_below(&self, folder: &str) -> Result<Vec<FoundAddress>> {
        let mut newest: BTreeMap<(OperatorName, PartitionId), Term> = BTreeMap::new();
        for name in self.objects.list_below(folder)? {
            if let Some((operator, partition, term)) = names::parse_reader(&name) {
                let known = newest.entry((operator, partition)).or_insert(term);
                *known = term.max(*known);
            }
        }
        let (mut addresses, mut unread) = (Vec::new(), None);
        for (of, term) in newest {
            match self.of_term(of.clone(), term) {
                Ok(found) => addresses.extend(found.map(|address| (of.0, of.1, address))),
                Err(error) => {
                    log::info!("operator {}, partition {}: {error}", of.0, of.1);
                    unread = Some(error);
                }
            }
        }
        match unread {
            // The user may have the right to list them, but not to read them.
            Some(error) if addresses.is_empty() => Err(error),
            _ => Ok(addresses),
        }
    }

    fn of_term(
        &self,
        of: (OperatorName, PartitionId),
        term: Term,
    ) -> Result<Option<Arc<ReaderAddress>>> {
        if let Some((known, address)) = self.read.lock().get(&of)
            && *known == term
        {
            return Ok(Some(Arc::clone(address)));
        }
        let name = names::reader(&of.0, of.1, term);
        let Some(address) = self.objects.get_json::<ReaderAddress>(&name)? else {
            return Ok(None);
        };
        let address = Arc::new(address);
        self.read.lock().insert(of, (term, Arc::clone(&address)));
        Ok(Some(address))
    }

    fn terms(&self, operator: &OperatorName, partition: PartitionId) -> Result<Vec<Term>> {
        let files = self.objects.list(&names::readers(operator, partition))?;
        Ok(files
            .iter()
            .filter_map(|file| names::parse_owner(file))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::protocol::{Generation, RunNumber};
    use crate::root::testing::{Fault, FaultyStore};

    #[test]
    fn known_addresses_are_found_with_one_listing() {
        let store = Arc::new(FaultyStore::new(Fault::None));
        let shared = Arc::clone(&store);
        let objects = Arc::new(Objects::over(shared, Path::new("memory")));
        let hosts = ReaderAddresses::new(Arc::clone(&objects));
        let term = |run| Term {
            run: RunNumber(run),
            generation: Generation(1),
        };
        let publish = |name: &str, partition, run| {
            let address = ReaderAddress {
                machine: "here".to_owned(),
                socket: PathBuf::from("socket"),
                endpoint: None,
                token: format!("{name} {partition} {run}"),
            };
            let operator = OperatorName::new(name).expect("a name");
            hosts
                .publish(
                    &operator,
                    PartitionId(partition),
                    term(run),
                    &address,
                    Instant::now(),
                )
                .expect("published");
        };
        for partition in 0..3 {
            publish("a", partition, 1);
            publish("b", partition, 1);
        }
        let readers = ReaderAddresses::new(objects);
        let tokens = || -> Vec<String> {
            let all = readers.all().expect("a listing").into_iter();
            all.map(|(_, _, address)| address.token.clone()).collect()
        };
        let expected = ["a 0 1", "a 1 1", "a 2 1", "b 0 1", "b 1 1", "b 2 1"];
        assert_eq!(tokens(), expected);
        let before = store.requests();
        assert_eq!(tokens(), expected);
        assert_eq!(store.requests() - before, 1);
        publish("a", 2, 2);
        let before = store.requests();
        assert_eq!(tokens()[2], "a 2 2");
        assert_eq!(store.requests() - before, 2);
        let operator = OperatorName::new("a").expect("a name");
        let before = store.requests();
        let found = readers.of_operator(&operator).expect("a listing");
        let found: Vec<&str> = found.iter().map(|(_, _, host)| &*host.token).collect();
        assert_eq!(found, ["a 0 1", "a 1 1", "a 2 2"]);
        assert_eq!(store.requests() - before, 1);
    }

    #[test]
    fn failed_publication_is_not_repeated_in_each_session() {
        let store = Arc::new(FaultyStore::new(Fault::RefusesReaders));
        let root = store.root();
        let operator = OperatorName::new("join").expect("a name");
        let address = ReaderAddress {
            machine: "m".to_owned(),
            socket: PathBuf::from("s"),
            endpoint: None,
            token: "t".to_owned(),
        };
        let start = Instant::now();
        // Returns the result, and whether a request was sent.
        let publish = |partition: i32, seconds: u64| {
            let before = store.requests();
            let term = Term::first(RunNumber(1));
            let published = root.readers.publish(
                &operator,
                PartitionId(partition),
                term,
                &address,
                start + Duration::from_secs(seconds),
            );
            (published.is_ok(), store.requests() > before)
        };
        assert_eq!(publish(0, 0), (false, true));
        for partition in [0, 1] {
            assert_eq!(publish(partition, 20), (true, false), "a pause of 30 s");
        }
        assert_eq!(publish(1, 40), (false, true));
        assert_eq!(publish(0, 90), (true, false), "a pause of 60 s");
        tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime")
            .block_on(store.repair());
        assert_eq!(publish(0, 110), (true, true));
        assert_eq!(publish(1, 110), (true, true), "no pause after a success");
        assert_eq!(publish(1, 111), (true, false), "once in a term");
        let found = root.readers.newest(&operator, PartitionId(1));
        assert_eq!(found.expect("readable").as_deref(), Some(&address));
    }
}
