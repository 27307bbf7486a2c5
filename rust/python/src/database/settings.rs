//! The settings of a database.

use crate::serde::{Serde, side};
use holdfast_core::{
    DatabaseOptions, Durability, Error, ErrorKind, MetricsLevel, ProcessingGuarantee, Result,
    StoreSerde, TransactionMechanism,
};
use pyo3::prelude::*;

/// How to open a database, as `holdfast.open` passes it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct DatabaseSettings {
    durability: String,
    guarantee: String,
    mechanism: String,
    uncommitted_max_bytes: i64,
    metrics_level: String,
    rocksdb_options: Vec<(String, String)>,
    /// (store, whether the serde is for keys, serde)
    serdes: Vec<(String, bool, Py<Serde>)>,
}

impl DatabaseSettings {
    /// Returns the options for the engine.
    pub fn options(&self) -> Result<DatabaseOptions> {
        Ok(DatabaseOptions {
            durability: named(
                "durability",
                &self.durability,
                [Durability::Sync, Durability::Changelog],
                Durability::name,
            )?,
            guarantee: named(
                "processing guarantee",
                &self.guarantee,
                [
                    ProcessingGuarantee::AtLeastOnce,
                    ProcessingGuarantee::ExactlyOnce,
                ],
                ProcessingGuarantee::name,
            )?,
            mechanism: named(
                "transaction mechanism",
                &self.mechanism,
                [
                    TransactionMechanism::Auto,
                    TransactionMechanism::IndexedBatch,
                    TransactionMechanism::SecondaryStore,
                ],
                TransactionMechanism::name,
            )?,
            metrics_level: named(
                "metrics level",
                &self.metrics_level,
                [MetricsLevel::Info, MetricsLevel::Debug],
                MetricsLevel::name,
            )?,
            uncommitted_max_bytes: self.uncommitted_max_bytes,
            rocksdb_options: self.rocksdb_options.clone(),
            serdes: self
                .serdes
                .iter()
                .map(|(store, as_key, serde)| StoreSerde {
                    store: store.clone(),
                    side: side(*as_key),
                    serde: serde.get().engine().clone(),
                })
                .collect(),
            ..DatabaseOptions::default()
        })
    }
}

fn named<T: Copy>(
    what: &str,
    name: &str,
    all: impl IntoIterator<Item = T>,
    name_of: impl Fn(T) -> &'static str,
) -> Result<T> {
    let found = all.into_iter().find(|known| name_of(*known) == name);
    found.ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidValue,
            format!("there is no {what} {name:?}"),
        )
    })
}
