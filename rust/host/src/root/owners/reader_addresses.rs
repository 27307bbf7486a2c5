//! `readers/<operator>/<partition>/<run>.<generation>`: where a reader finds the host of a
//! partition.
//!
//! The host that owns a partition in a term puts the file once. Its token gives the right to read,
//! and not to open a session.

use std::collections::HashMap;
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
}

impl ReaderAddresses {
    /// The addresses of a root.
    pub(in crate::root) fn new(objects: Arc<Objects>) -> Self {
        Self {
            objects,
            published: Mutex::default(),
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
    ) -> Result<Option<ReaderAddress>> {
        let newest = self.terms(operator, partition)?.into_iter().max();
        match newest {
            Some(term) => self
                .objects
                .get_json(&names::reader(operator, partition, term)),
            None => Ok(None),
        }
    }

    fn terms(&self, operator: &OperatorName, partition: PartitionId) -> Result<Vec<Term>> {
        let files = self.objects.list(&names::readers(operator, partition))?;
        Ok(files
            .iter()
            .filter_map(|file| names::parse_owner(file))
            .collect())
    }
}
