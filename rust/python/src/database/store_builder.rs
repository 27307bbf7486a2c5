//! The description of a store, as `holdfast.stores` builds it.

use holdfast_core::{Error, ErrorKind, Result, StoreKind, StoreSpec};
use pyo3::prelude::*;

/// Returns the default segment interval for a history retention, both in microseconds.
#[pyfunction]
pub fn default_segment_interval(history_retention: i64) -> i64 {
    holdfast_core::default_segment_interval(history_retention)
}

/// A `holdfast.stores.StoreBuilder`.
#[derive(FromPyObject)]
pub struct StoreBuilder {
    name: String,
    kind: String,
    persistent: bool,
    transactional: bool,
    history_retention: Option<i64>,
    segment_interval: Option<i64>,
    retention: Option<i64>,
    window_size: Option<i64>,
    retain_duplicates: bool,
}

impl StoreBuilder {
    /// Returns the description for the engine.
    pub fn spec(self) -> Result<StoreSpec> {
        let wrong =
            |message: String| Error::new(ErrorKind::InvalidValue, message).store(&self.name);
        let needed = |what: &str, micros: Option<i64>| {
            micros.ok_or_else(|| wrong(format!("a {} store needs a {what}", self.kind)))
        };
        let kind = match self.kind.as_str() {
            "key_value" => StoreKind::KeyValue,
            "timestamped_key_value" => StoreKind::TimestampedKeyValue,
            "versioned" => StoreKind::Versioned {
                history_retention: needed("history_retention", self.history_retention)?,
                segment_interval: needed("segment_interval", self.segment_interval)?,
            },
            "window" | "timestamped_window" => StoreKind::Window {
                retention: needed("retention", self.retention)?,
                window_size: needed("window_size", self.window_size)?,
                retain_duplicates: self.retain_duplicates,
                timestamped: self.kind == "timestamped_window",
            },
            "session" => StoreKind::Session {
                retention: needed("retention", self.retention)?,
            },
            other => return Err(wrong(format!("there is no store kind {other:?}"))),
        };
        Ok(StoreSpec {
            name: self.name,
            kind,
            persistent: self.persistent,
            transactional: self.transactional,
        })
    }
}
