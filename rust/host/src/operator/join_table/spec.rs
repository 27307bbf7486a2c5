//! Settings of a join of tables, as the request has them.

use std::collections::BTreeMap;

use holdfast_core::{Error, ErrorKind, Result, StoreKind, StoreSpec};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::operator::input::RowsSpec;
use crate::operator::output::OutputColumn;

/// The store of the left table.
pub const LEFT: &str = "left";
/// The store of the right table.
pub const RIGHT: &str = "right";

/// The settings of a join of tables.
#[derive(Debug, Clone, Deserialize)]
pub struct JoinTableSpec {
    /// The input's columns.
    #[serde(flatten)]
    pub rows: RowsSpec,
    /// Which sides a row of the result must have.
    pub how: JoinTableKind,
    /// How far back both tables reach, in microseconds.
    pub history_retention: i64,
    /// The left payload columns that are values: a row in which all of them are null is a delete.
    /// If there are none, no row is a delete.
    pub left_values: Vec<usize>,
    /// The right payload columns that are values.
    pub right_values: Vec<usize>,
    /// The result's columns.
    pub output: Vec<OutputColumn>,
}

/// Which sides a row of the result must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JoinTableKind {
    /// Both.
    Inner,
    /// The left one.
    Left,
    /// Either.
    Outer,
}

impl JoinTableKind {
    /// The settings that the state of a join of this kind depends on.
    pub fn settings(self, history_retention: i64) -> BTreeMap<String, Value> {
        let how = serde_json::to_value(self).unwrap_or_default();
        BTreeMap::from([
            (
                "history_retention".to_owned(),
                Value::from(history_retention),
            ),
            ("how".to_owned(), how),
        ])
    }

    /// Whether these sides make a row of the result.
    pub fn joins(self, left: bool, right: bool) -> bool {
        match self {
            Self::Inner => left && right,
            Self::Left => left,
            Self::Outer => left || right,
        }
    }
}

impl JoinTableSpec {
    /// Checks the settings.
    ///
    /// # Errors
    /// `InvalidValue` names the setting.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: String| {
            Err(Error::new(
                ErrorKind::InvalidValue,
                format!("join_table: {what}"),
            ))
        };
        if self.history_retention < 0 {
            return wrong(format!(
                "history_retention is negative ({})",
                self.history_retention
            ));
        }
        for (values, payload) in [
            (&self.left_values, &self.rows.left),
            (&self.right_values, &self.rows.right),
        ] {
            if let Some(value) = values.iter().find(|value| **value >= payload.len()) {
                return wrong(format!("value column {value} does not exist"));
            }
        }
        Ok(())
    }
}

/// The stores of a join of two versioned tables.
pub fn table_stores(history_retention: i64) -> Vec<StoreSpec> {
    [LEFT, RIGHT]
        .map(|name| StoreSpec::new(name, StoreKind::versioned(history_retention)))
        .to_vec()
}
