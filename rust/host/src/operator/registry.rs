//! The operators by kind.

use holdfast_core::StoreSpec;
use serde::Deserialize;

use super::execution::Operator;
use super::spec::OperatorSpec;
use super::{
    aggregate, asof_join, drop_duplicates, join_foreign_key, join_table, join_window, materialize,
    process,
};
use crate::protocol::{Epoch, IsolationLevel, OperatorName};
use crate::root::{OperatorMeta, StoredStore};

/// The operator of a request.
#[derive(Debug, Clone, Deserialize)]
pub struct OperatorRequest {
    /// Its name in the state.
    pub name: OperatorName,
    /// How far past its micro-batch's timestamp a row may be dated, in microseconds. `None` allows
    /// any time.
    #[serde(default)]
    pub max_ahead: Option<i64>,
    /// Whether its stores are in files; otherwise they are in memory, and a host that starts fills
    /// them from the log.
    #[serde(default = "yes")]
    pub persistent: bool,
    /// Which operator it is, with its settings.
    #[serde(flatten)]
    pub kind: OperatorKind,
}

fn yes() -> bool {
    true
}

impl OperatorRequest {
    /// The stores of the operator.
    pub fn stores(&self) -> Vec<StoreSpec> {
        let stores = self.kind.spec().stores().into_iter();
        stores
            .map(|store| StoreSpec {
                persistent: store.persistent && self.persistent,
                ..store
            })
            .collect()
    }

    /// Returns what the root records of the operator. `isolation_level` is for readers that do not
    /// name a level.
    pub fn meta(
        &self,
        operator: &dyn Operator,
        first_epoch: Epoch,
        isolation_level: IsolationLevel,
    ) -> OperatorMeta {
        let mut meta = operator.meta(first_epoch);
        meta.payload.isolation_level = isolation_level;
        meta.payload.stores = self.stores().iter().map(StoredStore::from).collect();
        if !self.persistent {
            meta.settings
                .insert("persistent".to_owned(), self.persistent.into());
        }
        meta
    }
}

/// An operator's kind, with its settings. The names of the variants are those in requests.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum OperatorKind {
    /// The as-of join of a stream with a versioned table.
    JoinAsof(asof_join::AsofJoinSpec),
    /// The join of two tables.
    JoinTable(join_table::JoinTableSpec),
    /// The first stage of a join of two tables by a foreign key.
    ForeignLeft(join_foreign_key::ForeignLeftSpec),
    /// The second stage of a join of two tables by a foreign key.
    ForeignJoin(join_foreign_key::ForeignJoinSpec),
    /// The join of two streams within a window.
    JoinWindow(join_window::JoinWindowSpec),
    /// The first row of each key within a time span.
    DropDuplicates(drop_duplicates::DropDuplicatesSpec),
    /// A change stream stored as a table.
    Materialize(materialize::MaterializeSpec),
    /// An aggregation by key and window.
    Aggregate(aggregate::AggregateSpec),
    /// The user's code.
    Process(process::ProcessSpec),
}

impl OperatorKind {
    /// The operator's settings.
    pub fn spec(&self) -> &dyn OperatorSpec {
        match self {
            Self::JoinAsof(spec) => spec,
            Self::JoinTable(spec) => spec,
            Self::ForeignLeft(spec) => spec,
            Self::ForeignJoin(spec) => spec,
            Self::JoinWindow(spec) => spec,
            Self::DropDuplicates(spec) => spec,
            Self::Materialize(spec) => spec,
            Self::Aggregate(spec) => spec,
            Self::Process(spec) => spec,
        }
    }
}
