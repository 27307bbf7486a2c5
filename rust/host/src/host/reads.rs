//! What a host holds for its readers.

use std::collections::HashMap;
use std::sync::Arc;

use aws_lc_rs::hmac;
use holdfast_core::Result;
use parking_lot::Mutex;

use super::counters::HostCounters;
use crate::net::read::ReadTarget;
use crate::partition::ReadView;
use crate::protocol::{OperatorName, RunNumber};
use crate::root::{ReaderAddress, Root};
use crate::tables::{StateTable, operator_tables};

/// A view of a partition, with the tables of its operator.
pub struct OpenView {
    /// The view.
    pub view: ReadView,
    /// The operator's tables.
    pub tables: Arc<Vec<StateTable>>,
}

/// What a host holds for its readers.
#[derive(Default)]
pub struct Reads {
    /// How readers reach this host; none if it does not listen. Its token is the secret of
    /// [`Reads::token`].
    address: Option<ReaderAddress>,
    /// What the host counts.
    pub counters: HostCounters,
    /// The tables of each operator, by root id and operator.
    tables: Mutex<HashMap<(String, OperatorName), CachedTables>>,
}

/// The tables of an operator, as a run found them.
struct CachedTables {
    /// Another run may have other tables.
    run: RunNumber,
    /// The versions of the columns. A micro-batch of the run may have added one.
    versions: usize,
    tables: Arc<Vec<StateTable>>,
}

impl Reads {
    /// Makes the part of a host that serves readers at an address.
    pub fn at(address: ReaderAddress) -> Self {
        Self {
            address: Some(address),
            ..Self::default()
        }
    }

    /// How readers reach this host; none if it does not listen.
    pub fn address(&self) -> Option<&ReaderAddress> {
        self.address.as_ref()
    }

    /// Returns the token that gives the right to read one root; none if the host does not listen
    /// for readers.
    ///
    /// The token is an HMAC with the host's secret, so another root's token cannot be derived from
    /// it.
    pub fn token(&self, root_id: &str) -> Option<String> {
        let secret = self.address.as_ref()?.token.as_bytes();
        let token = hmac::sign(
            &hmac::Key::new(hmac::HMAC_SHA256, secret),
            root_id.as_bytes(),
        );
        let digits = token.as_ref().iter().map(|byte| format!("{byte:02x}"));
        Some(digits.collect())
    }

    /// Forgets a root that was deleted, replaced, or restored from a backup. The next run of a
    /// restored root may have the number of an earlier run.
    pub fn forget(&self, root: &Root) {
        self.counters.forget(root.path());
        if let Some(id) = root.identity.first_id() {
            self.forget_tables(&id);
        }
    }

    fn forget_tables(&self, root_id: &str) {
        self.tables.lock().retain(|(of, _), _| of != root_id);
    }

    /// Returns the tables of an operator in a run.
    ///
    /// # Errors
    /// `Restore` if the operator cannot be read; those of [`operator_tables`].
    pub fn tables(
        &self,
        root: &Root,
        target: &ReadTarget,
        run: RunNumber,
    ) -> Result<Arc<Vec<StateTable>>> {
        let key = (target.root.clone(), target.operator.clone());
        let registered = root.operators.registered(&target.operator);
        let versions = registered.map_or(0, |operator| operator.versions.len());
        if let Some(cached) = self.tables.lock().get(&key)
            && cached.run == run
            && cached.versions >= versions
        {
            return Ok(Arc::clone(&cached.tables));
        }
        let recorded = root.operators.recorded(&target.operator)?;
        let tables = Arc::new(operator_tables(&recorded)?);
        let cached = CachedTables {
            run,
            versions: recorded.payloads.len(),
            tables: Arc::clone(&tables),
        };
        self.tables.lock().insert(key, cached);
        Ok(tables)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forgotten_root_has_no_cached_tables() {
        let reads = Reads::default();
        let operator = OperatorName::new("join").expect("a name");
        for root in ["one", "another"] {
            let key = (root.to_owned(), operator.clone());
            let cached = CachedTables {
                run: RunNumber(1),
                versions: 1,
                tables: Arc::default(),
            };
            reads.tables.lock().insert(key, cached);
        }
        reads.forget_tables("one");
        let tables = reads.tables.lock();
        let remaining: Vec<_> = tables.keys().map(|(root, _)| root.as_str()).collect();
        assert_eq!(remaining, ["another"]);
    }
}
