//! The settings of a database.

use holdfast_core::{
    DatabaseOptions, Durability, Error, ErrorKind, MetricsLevel, ProcessingGuarantee, Result,
    TransactionMechanism,
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
}

impl DatabaseSettings {
    /// Returns the options for the engine.
    pub fn options(self) -> Result<DatabaseOptions> {
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
            rocksdb_options: self.rocksdb_options,
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
