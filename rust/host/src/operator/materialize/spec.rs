//! Settings of a table, as the request has them.

use holdfast_core::{Error, ErrorKind, Result, StoreKind};
use serde::Deserialize;

use crate::operator::input::RowsSpec;
use crate::operator::output::OutputColumn;

/// The table's store.
pub const TABLE: &str = "table";

/// The settings of a table.
#[derive(Debug, Clone, Deserialize)]
pub struct MaterializeSpec {
    /// The input's columns; all rows are left ones.
    #[serde(flatten)]
    pub rows: RowsSpec,
    /// The form of the table.
    pub table: TableKind,
    /// The left payload columns that are values: a row in which all of them are null is a delete.
    /// If there are none, no row is a delete.
    pub values: Vec<usize>,
    /// The result's columns.
    pub output: Vec<OutputColumn>,
}

/// The form of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(tag = "form", rename_all = "snake_case")]
pub enum TableKind {
    /// For each key, the row that was processed last.
    KeyValue,
    /// For each key, the row with the greatest time. The time of a delete is not stored: a row that
    /// is older than the delete but arrives after it is accepted.
    Timestamped,
    /// For each key, all rows by time.
    Versioned {
        /// How far back the table reaches, in microseconds.
        history_retention: i64,
    },
}

impl MaterializeSpec {
    /// The kind of the table's store.
    pub fn store_kind(&self) -> StoreKind {
        match self.table {
            TableKind::KeyValue => StoreKind::KeyValue,
            TableKind::Timestamped => StoreKind::TimestampedKeyValue,
            TableKind::Versioned { history_retention } => StoreKind::versioned(history_retention),
        }
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// `InvalidValue` names the setting.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: String| {
            Err(Error::new(
                ErrorKind::InvalidValue,
                format!("materialize: {what}"),
            ))
        };
        if let TableKind::Versioned { history_retention } = self.table
            && history_retention < 0
        {
            return wrong(format!(
                "history_retention is negative ({history_retention})"
            ));
        }
        let columns = self.rows.left.len();
        match self.values.iter().find(|value| **value >= columns) {
            Some(value) => wrong(format!("value column {value} does not exist")),
            None => Ok(()),
        }
    }
}
