//! The description of an operator in the root.

use std::collections::BTreeMap;

use holdfast_core::{StoreKind, StoreSpec};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::store_serdes::StoreSerdes;
use super::stored_store::StoredStore;
use crate::codec::column::Column;
use crate::protocol::{Epoch, IsolationLevel, RunNumber};

/// The parts of an operator that may change between two starts: the payload columns of its stored
/// rows, the serdes of a processor's stores, and settings of stores and readers. The newest version
/// describes the newest start of the query.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PayloadSchema {
    /// Columns of the left side, or of the only one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<Column>,
    /// Columns of the right side.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub right: Vec<Column>,
    /// Serdes of a processor's stores, by store name. Stores of bytes have none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub serdes: BTreeMap<String, StoreSerdes>,
    /// The operator's stores, with which a reader opens a copy. Settings that must not change are
    /// in [`OperatorMeta::settings`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stores: Vec<StoredStore>,
    /// The isolation level of readers that name none.
    #[serde(default, skip_serializing_if = "IsolationLevel::is_committed")]
    pub isolation_level: IsolationLevel,
}

impl PayloadSchema {
    /// Returns the retention of a store in microseconds; none if the operator has no such store.
    fn retention(&self, store: &str) -> Option<i64> {
        let found = self.stores.iter().find(|found| found.name == store)?;
        Some(StoreKind::from(found.kind).retention())
    }
}

/// What an operator stores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorMeta {
    /// The kind of operator: `join_asof`, …
    pub kind: String,
    /// The key's columns, in order.
    pub key: Vec<Column>,
    /// Name and type of the time column, because a stored time is a bare number. None if the rows
    /// have no time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Column>,
    /// Columns that are computed from several rows (an aggregation's), in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub value: Vec<Column>,
    /// Columns of rows that are stored unchanged, and the other parts that may differ between
    /// starts.
    #[serde(flatten)]
    pub payload: PayloadSchema,
    /// Settings that the state depends on (`history_retention`, …).
    pub settings: BTreeMap<String, Value>,
    /// The epoch in which the operator first took part; recorded, but not compared.
    pub first_epoch: Epoch,
}

/// A version of the payload columns: `operators/<name>.<version>.json`, or the part of
/// `operators/<name>.json` that may change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PayloadVersion {
    /// The columns and the other parts that may change.
    #[serde(flatten)]
    pub payload: PayloadSchema,
    /// The session that put it.
    pub since: VersionStart,
}

/// The session that put a version: the first one of its run that used it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct VersionStart {
    /// The session's run.
    pub run: RunNumber,
    /// The session's epoch.
    pub epoch: Epoch,
}

impl VersionStart {
    /// Before each session: the start of an operator's first version.
    pub const FIRST: Self = Self {
        run: RunNumber(0),
        epoch: Epoch(0),
    };
}

/// An operator as the root holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredOperator {
    /// The epoch in which it first took part.
    pub first_epoch: Epoch,
    /// The versions of its payload columns.
    pub versions: Vec<PayloadVersion>,
    /// The version that the query uses now.
    pub version: u16,
}

impl StoredOperator {
    /// Returns whether one of these stores had a longer retention in the sessions of this run and
    /// epoch. If they are none, all versions are compared.
    pub fn had_longer_retention<'a>(
        &self,
        mut stores: impl Iterator<Item = &'a StoreSpec>,
        sessions: Option<(RunNumber, Epoch)>,
    ) -> bool {
        let compared: Vec<&PayloadVersion> = match sessions {
            None => self.versions.iter().collect(),
            Some((run, epoch)) => {
                let session = VersionStart { run, epoch };
                let begun = self.versions.iter();
                let begun = begun.filter(|version| version.since <= session);
                Vec::from_iter(begun.max_by_key(|version| version.since))
            }
        };
        stores.any(|store| {
            let mut retentions = compared
                .iter()
                .filter_map(|version| version.payload.retention(&store.name));
            retentions.any(|retention| retention > store.kind.retention())
        })
    }
}

/// An operator as the root records it, with all versions of its payload columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedOperator {
    /// What it stores, as of its first epoch.
    pub meta: OperatorMeta,
    /// Its payload columns, by version.
    pub payloads: Vec<PayloadSchema>,
}

impl RecordedOperator {
    /// Returns the operator's stores, as the newest start of the query described them.
    pub fn stores(&self) -> &[StoredStore] {
        self.payloads
            .last()
            .map_or(&[], |payload| payload.stores.as_slice())
    }

    /// Returns the stores, each with its longest retention in all starts of the query.
    ///
    /// A copy that is opened with them shows each epoch with the retention that the epoch was
    /// computed with: the epoch's own state has the end of it.
    pub fn stores_of_copies(&self) -> Vec<StoredStore> {
        let mut stores = self.stores().to_vec();
        for store in &mut stores {
            let of_starts = self.payloads.iter().flat_map(|payload| &payload.stores);
            store.kind = of_starts
                .filter(|of_start| of_start.name == store.name)
                .fold(store.kind, |kind, of_start| kind.or_longer(of_start.kind));
        }
        stores
    }

    /// Returns the isolation level of readers that name none, as the newest start of the query gave
    /// it.
    pub fn isolation_level(&self) -> IsolationLevel {
        self.payloads
            .last()
            .map_or_else(IsolationLevel::default, |payload| payload.isolation_level)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::stored_store::StoredKind;
    use super::*;

    fn session_store(retention: i64) -> StoredStore {
        StoredStore {
            name: "groups".to_owned(),
            kind: StoredKind::Session { retention },
        }
    }

    fn payload(retention: i64) -> PayloadSchema {
        PayloadSchema {
            stores: vec![session_store(retention)],
            ..PayloadSchema::default()
        }
    }

    #[test]
    fn copies_have_the_longest_retention_of_all_starts() {
        let operator = RecordedOperator {
            meta: OperatorMeta {
                kind: "aggregate".to_owned(),
                key: Vec::new(),
                time: None,
                value: Vec::new(),
                payload: payload(7),
                settings: BTreeMap::new(),
                first_epoch: Epoch(0),
            },
            payloads: vec![payload(7), payload(9), payload(1)],
        };
        assert_eq!(operator.stores(), [session_store(1)]);
        assert_eq!(operator.stores_of_copies(), [session_store(9)]);
    }

    #[test]
    fn retention_of_an_epoch_is_that_of_the_session_that_decided_it() {
        let version = |retention, run, epoch| PayloadVersion {
            payload: payload(retention),
            since: VersionStart {
                run: RunNumber(run),
                epoch: Epoch(epoch),
            },
        };
        let first = PayloadVersion {
            payload: payload(9),
            since: VersionStart::FIRST,
        };
        let operator = StoredOperator {
            first_epoch: Epoch(0),
            versions: vec![
                first,
                version(1, 2, 2),
                version(9, 3, 2),
                version(1, 3, 5),
                // A stalled host of run 2 has put it.
                version(5, 2, 3),
            ],
            version: 0,
        };
        let stores = [StoreSpec::from(&session_store(3))];
        let had_longer = |run, epoch| {
            operator.had_longer_retention(stores.iter(), Some((RunNumber(run), Epoch(epoch))))
        };
        assert!(had_longer(1, 1));
        assert!(!had_longer(2, 2));
        assert!(had_longer(3, 2) && had_longer(3, 4));
        assert!(!had_longer(3, 5) && !had_longer(4, 6));
        assert!(operator.had_longer_retention(stores.iter(), None));
    }
}
