//! `readers/<operator>/<partition>/<run>.<generation>`: where a reader finds the host of a
//! partition.
//!
//! The host that owns a partition in a term puts the file once. Its token gives the right to read,
//! and not to open a session.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

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
    /// For readers on other machines; none if the host does not listen there.
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

/// The addresses of a root's hosts for readers.
#[derive(Debug)]
pub struct ReaderAddresses {
    objects: Arc<Objects>,
    /// The terms whose address this process has put.
    published: Mutex<HashMap<(OperatorName, PartitionId), Term>>,
    /// The newest addresses that this process has read. The address of a term never changes.
    read: Mutex<HashMap<(OperatorName, PartitionId), (Term, Arc<ReaderAddress>)>>,
}

impl ReaderAddresses {
    /// The addresses of a root.
    pub(in crate::root) fn new(objects: Arc<Objects>) -> Self {
        Self {
            objects,
            published: Mutex::default(),
            read: Mutex::default(),
        }
    }

    /// Puts the address of the host that owns a partition in a term, once, and removes older ones.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn publish(
        &self,
        operator: &OperatorName,
        partition: PartitionId,
        term: Term,
        address: &ReaderAddress,
    ) -> Result<()> {
        let key = (operator.clone(), partition);
        if self.published.lock().get(&key) == Some(&term) {
            return Ok(());
        }
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
        self.published.lock().insert(key, term);
        Ok(())
    }

    /// Returns the newest address of a partition's host; none if no host has put one.
    ///
    /// # Errors
    /// `Restore` for an address that cannot be read, `Io` if the disk fails.
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
    /// An address that cannot be read is left out, as one that is removed meanwhile.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn all(&self) -> Result<Vec<(OperatorName, PartitionId, Arc<ReaderAddress>)>> {
        let mut newest: BTreeMap<(OperatorName, PartitionId), Term> = BTreeMap::new();
        for name in self.objects.list_below(names::READERS)? {
            if let Some((operator, partition, term)) = names::parse_reader(&name) {
                let known = newest.entry((operator, partition)).or_insert(term);
                *known = term.max(*known);
            }
        }
        let addresses = newest.into_iter().filter_map(|(of, term)| {
            let read = self.of_term(of.clone(), term).unwrap_or_else(|error| {
                log::info!("operator {}, partition {}: {error}", of.0, of.1);
                None
            });
            read.map(|address| (of.0, of.1, address))
        });
        Ok(addresses.collect())
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
    fn all_addresses_cost_one_listing_once_they_are_known() {
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
                .publish(&operator, PartitionId(partition), term(run), &address)
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
    }
}
