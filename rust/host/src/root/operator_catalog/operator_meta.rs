//! The description of an operator in the root.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::store_serdes::StoreSerdes;
use super::stored_store::StoredStore;
use crate::codec::column::Column;
use crate::protocol::{Epoch, IsolationLevel};

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

/// An operator as the root holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredOperator {
    /// The epoch in which it first took part.
    pub first_epoch: Epoch,
    /// Its payload columns, by version.
    pub payloads: Vec<PayloadSchema>,
    /// The version that the query uses now.
    pub version: u16,
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

    #[test]
    fn copies_have_the_longest_retention_of_all_starts() {
        let session = |retention| StoredStore {
            name: "groups".to_owned(),
            kind: StoredKind::Session { retention },
        };
        let payload = |retention| PayloadSchema {
            stores: vec![session(retention)],
            ..PayloadSchema::default()
        };
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
        assert_eq!(operator.stores(), [session(1)]);
        assert_eq!(operator.stores_of_copies(), [session(9)]);
    }
}
